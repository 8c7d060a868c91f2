#include "tools/key_value_generator.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>

#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/strings/str_format.h"

namespace sievedb {
namespace {

constexpr size_t kMaxDigits = 20;  // of a 64-bit number
constexpr size_t kPoolBytes = size_t{4} << 20;
// Compressors look back this far at least; a part of random bytes must come
// again within it.
constexpr size_t kPieceBytes = 100;

size_t DecimalDigits(uint64_t number) {
  size_t digits = 1;
  for (; number >= 10; number /= 10) ++digits;
  return digits;
}

// The 8 decimal digits of number, of which the first is the lowest byte. Requires:
// number < 10^8. Several digits at a time, since keys are made within what is measured.
uint64_t EightDigits(uint64_t number) {
  const uint64_t fours = number / 10000 | number % 10000 << 32;
  const uint64_t hundreds = (fours * 10486 >> 20) & 0x0000007f0000007f;  // of each / 100
  const uint64_t twos = hundreds | (fours - hundreds * 100) << 16;
  const uint64_t tens = (twos * 103 >> 10) & 0x000f000f000f000f;  // of each / 10
  const uint64_t ones = tens | (twos - tens * 10) << 8;
  return ones | 0x3030303030303030;
}

size_t BinaryBytes(uint64_t number) {
  return std::max<size_t>(1, static_cast<size_t>((std::bit_width(number) + 7) / 8));
}

}  // namespace

uint64_t BenchRandom::Mix(uint64_t number) {
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
  number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
  return number ^ (number >> 31);
}

uint64_t BenchRandom::Next() {
  state_ += 0x9e3779b97f4a7c15;
  return Mix(state_);
}

uint64_t BenchRandom::Uniform(uint64_t limit) {
  assert(limit > 0);
  return absl::Uint128High64(absl::uint128(Next()) * limit);
}

Permutation::Permutation(uint64_t count, uint64_t seed) : count_(count) {
  assert(count > 0);
  half_bits_ = std::max(1, (static_cast<int>(std::bit_width(count - 1)) + 1) / 2);
  half_mask_ = (uint64_t{1} << half_bits_) - 1;
  BenchRandom random(seed);
  for (uint64_t& key : round_keys_) key = random.Next();
}

uint64_t Permutation::operator()(uint64_t index) const {
  assert(index < count_);
  // The network permutes fewer than 4 * count numbers, so the walk along a cycle
  // comes back into the range after four steps on average.
  do {
    uint64_t left = index >> half_bits_;
    uint64_t right = index & half_mask_;
    for (const uint64_t key : round_keys_) {
      const uint64_t next = left ^ (BenchRandom::Mix(right + key) & half_mask_);
      left = right;
      right = next;
    }
    index = left << half_bits_ | right;
  } while (index >= count_);
  return index;
}

absl::StatusOr<KeyGenerator> KeyGenerator::Create(size_t key_bytes, uint64_t max_number) {
  if (DecimalDigits(max_number) <= key_bytes) {
    return KeyGenerator(key_bytes, std::min(key_bytes, kMaxDigits), true);
  }
  if (BinaryBytes(max_number) <= key_bytes) {
    return KeyGenerator(key_bytes, std::min(key_bytes, sizeof(uint64_t)), false);
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("%d different keys do not fit into %d bytes", max_number, key_bytes));
}

void KeyGenerator::Format(uint64_t number, std::string* key) const {
  if (key->size() != key_bytes_) key->resize(key_bytes_);
  char* bytes = key->data();
  size_t left = number_bytes_;
  while (decimal_ && left >= 8) {
    const uint64_t digits = EightDigits(number % 100000000);
    std::memcpy(bytes + (left -= 8), &digits, sizeof(digits));
    number /= 100000000;
  }
  const uint64_t base = decimal_ ? 10 : 256;
  const uint64_t zero = decimal_ ? '0' : 0;
  for (; left > 0; number /= base) bytes[--left] = static_cast<char>(zero + number % base);
  assert(number == 0);
  if (number_bytes_ < key_bytes_) std::fill(bytes + number_bytes_, bytes + key_bytes_, '0');
}

uint64_t KeyGenerator::Parse(std::string_view key) const {
  assert(key.size() == key_bytes_);
  const uint64_t base = decimal_ ? 10 : 256;
  const uint64_t zero = decimal_ ? '0' : 0;
  uint64_t number = 0;
  for (size_t i = 0; i < number_bytes_; ++i) {
    number = number * base + static_cast<unsigned char>(key[i]) - zero;
  }
  return number;
}

ValueGenerator::ValueGenerator(size_t value_bytes, double compression_ratio, uint64_t seed)
    : value_bytes_(value_bytes) {
  values_ = value_bytes == 0 ? 1 : std::max<uint64_t>(4, kPoolBytes / value_bytes);
  pool_.resize(values_ * value_bytes);
  const double ratio = std::clamp(compression_ratio, 0.0, 1.0);
  BenchRandom random(seed);
  // Every value is made of pieces of its own, so that it compresses by itself as
  // well as in company.
  for (uint64_t value = 0; value < values_; ++value) {
    char* const begin = pool_.data() + value * value_bytes;
    for (size_t offset = 0; offset < value_bytes; offset += kPieceBytes) {
      const size_t piece = std::min(kPieceBytes, value_bytes - offset);
      const size_t fresh = std::clamp<size_t>(
          static_cast<size_t>(std::lround(ratio * static_cast<double>(piece))), 1, piece);
      for (size_t i = 0; i < piece; ++i) {
        begin[offset + i] =
            i < fresh ? static_cast<char>(random.Next()) : begin[offset + i - fresh];
      }
    }
  }
}

}  // namespace sievedb
