#include "util/binomial.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace sievedb {

ShareInterval WilsonInterval(double share, double trials, double z) {
  assert(share >= 0 && share <= 1 && trials >= 0 && z > 0);
  if (trials <= 0) return {};
  const double zz = z * z / trials;
  const double center = share + zz / 2;
  const double half = z * std::sqrt(share * (1 - share) / trials + zz / (4 * trials));
  return {std::max(0.0, (center - half) / (1 + zz)), std::min(1.0, (center + half) / (1 + zz))};
}

}  // namespace sievedb
