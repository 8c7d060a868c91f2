#ifndef SIEVEDB_TOOLS_FILTER_THEORY_H_
#define SIEVEDB_TOOLS_FILTER_THEORY_H_

#include <cstdint>
#include <string>
#include <vector>

namespace sievedb {

// How many bits of a block are set, by theory: element s is the probability of s. Keys
// fall into blocks at random, so a block's load is Poisson around mean_keys; of each
// key probes bits of the block are set, each any of its bits.
//
// Requires: mean_keys >= 0, probes >= 1, block_bits >= 1.
// Cost: about 10 standard deviations of the load times probes times block_bits.
std::vector<double> SetBitsDistribution(double mean_keys, int probes, int block_bits);

// The same for dense blocks, whose bits depend on one another: the shares of some
// thousand blocks that are filled with random hashes, always the same ones.
std::vector<double> DenseSetBitsDistribution(double mean_keys, int probes);

// The false-positive rate of a kind of filter at bits per key, all of its memory
// counted.
struct RatePoint {
  double bits_per_key;
  double fpr;
};
struct RateCurve {
  std::string name;
  uint8_t kind;  // 0: no filter, but the least that any can have
  std::vector<RatePoint> points;
};
// Of every kind that tables have, from first to last bits per key; kinds of one size
// have one point. The least possible comes last.
std::vector<RateCurve> RateCurves(double first, double last);

}  // namespace sievedb

#endif  // SIEVEDB_TOOLS_FILTER_THEORY_H_
