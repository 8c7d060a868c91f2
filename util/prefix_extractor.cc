#include "sievedb/prefix_extractor.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_format.h"

namespace sievedb {
namespace {

class FixedPrefixExtractor final : public PrefixExtractor {
 public:
  explicit FixedPrefixExtractor(size_t bytes)
      : bytes_(bytes), name_(absl::StrFormat("sievedb.FixedPrefix.%u", bytes)) {}
  const char* Name() const override { return name_.c_str(); }
  std::optional<std::string_view> Prefix(std::string_view key) const override {
    if (key.size() < bytes_) return std::nullopt;
    return key.substr(0, bytes_);
  }

 private:
  const size_t bytes_;
  const std::string name_;
};

class DelimiterPrefixExtractor final : public PrefixExtractor {
 public:
  DelimiterPrefixExtractor(char delimiter, int count)
      : delimiter_(delimiter),
        count_(std::max(count, 1)),
        name_(absl::StrFormat("sievedb.DelimiterPrefix.%02x.%d",
                              static_cast<unsigned char>(delimiter), count_)) {}
  const char* Name() const override { return name_.c_str(); }
  std::optional<std::string_view> Prefix(std::string_view key) const override {
    size_t end = 0;
    for (int i = 0; i < count_; ++i) {
      const size_t at = key.find(delimiter_, end);
      if (at == key.npos) return std::nullopt;
      end = at + 1;
    }
    return key.substr(0, end);
  }

 private:
  const char delimiter_;
  const int count_;
  const std::string name_;
};

}  // namespace

PrefixExtractor::~PrefixExtractor() = default;

std::shared_ptr<const PrefixExtractor> NewFixedPrefixExtractor(size_t bytes) {
  return std::make_shared<FixedPrefixExtractor>(bytes);
}

std::shared_ptr<const PrefixExtractor> NewDelimiterPrefixExtractor(char delimiter, int count) {
  return std::make_shared<DelimiterPrefixExtractor>(delimiter, count);
}

}  // namespace sievedb
