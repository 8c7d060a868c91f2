// Runs a fuzz target without libFuzzer, so that every build checks it: each seed
// file of the directories given, then mutations of it from a fixed random seed.
// An input that once failed is kept as a seed file and so is tested for ever.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <system_error>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr int kMutationsPerSeed = 300;
constexpr uint64_t kRandomSeed = 0x5eed5eed;

void RunInput(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// One to four of: flip a bit, set a byte, cut the end, drop or repeat a range.
std::string Mutate(std::string bytes, std::mt19937_64& random) {
  const uint64_t changes = 1 + random() % 4;
  for (uint64_t i = 0; i < changes && !bytes.empty(); ++i) {
    const size_t at = random() % bytes.size();
    const size_t length = 1 + random() % (bytes.size() - at);
    switch (random() % 5) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random() % 8)));
        break;
      case 1:
        bytes[at] = static_cast<char>(random());
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.erase(at, length);
        break;
      default:
        bytes.insert(at, bytes.substr(at, length));
        break;
    }
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  std::set<std::filesystem::path> seeds;  // sorted: the order must not depend on the disk
  for (int i = 1; i < argc; ++i) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(argv[i], error)) {
      if (entry.is_regular_file()) seeds.insert(entry.path());
    }
    if (error) {
      std::fprintf(stderr, "%s: %s\n", argv[i], error.message().c_str());
      return 1;
    }
  }
  if (seeds.empty()) {
    std::fprintf(stderr, "no seed files given\n");
    return 1;
  }

  RunInput("");
  std::mt19937_64 random(kRandomSeed);
  size_t inputs = 1;
  for (const std::filesystem::path& seed : seeds) {
    const std::string bytes = ReadFile(seed);
    RunInput(bytes);
    for (int i = 0; i < kMutationsPerSeed; ++i) RunInput(Mutate(bytes, random));
    inputs += 1 + kMutationsPerSeed;
  }
  std::printf("%zu inputs from %zu seeds\n", inputs, seeds.size());
  return 0;
}
