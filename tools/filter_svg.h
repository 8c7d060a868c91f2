#ifndef SIEVEDB_TOOLS_FILTER_SVG_H_
#define SIEVEDB_TOOLS_FILTER_SVG_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/sst_dump_filter.h"

namespace sievedb {

// The picture of one table's filter, a self-contained SVG 1,000 pixels wide: the fill
// of its blocks as a heat map, the histogram of set bits beside what theory predicts,
// and its place among the false-positive rates of all kinds over bits per key. A
// filter without blocks has the last alone, and a line that says so. The figures stand
// in the element <metadata> as JSON too.
//
// Requires: report.present; block_bits as BlockSetBits gives them.
std::string DrawFilter(std::string_view file, const FilterReport& report,
                       const std::vector<int>& block_bits);

// The cells of the heat map: rows from the top, each from the left; every cell holds
// the same number of neighbouring blocks, the last maybe fewer.
struct HeatMap {
  size_t columns = 0;
  uint64_t blocks_per_cell = 1;
  std::vector<double> fill;  // mean share of set bits; at most 64 rows of 64
};
// Requires: block_bits not empty.
HeatMap MakeHeatMap(const std::vector<int>& block_bits, int bits_per_block);

// text as it may stand in an element or attribute. Requires: UTF-8 without control
// characters, as Escape (util/escape.h) makes of any bytes.
std::string XmlText(std::string_view text);

}  // namespace sievedb

#endif  // SIEVEDB_TOOLS_FILTER_SVG_H_
