#ifndef SIEVEDB_UTIL_BINOMIAL_H_
#define SIEVEDB_UTIL_BINOMIAL_H_

namespace sievedb {

// The probabilities under which it is not surprising that a share of some trials
// came out as it did (Wilson 1927: right for few trials and for shares near 0 and 1,
// where the textbook's symmetrical interval is not).
struct ShareInterval {
  double low = 0;
  double high = 1;
};
// z: how many standard deviations still count as chance; 1.96 for 95 of 100.
// No trials: all is possible.
// Requires: 0 <= share <= 1, trials >= 0 (whole or not), z > 0.
ShareInterval WilsonInterval(double share, double trials, double z);

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_BINOMIAL_H_
