#include "util/escape.h"

#include "absl/strings/str_format.h"

namespace sievedb {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";

// The value of a hexadecimal digit, or -1.
int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void AppendHexByte(std::string* to, char c) {
  const auto byte = static_cast<unsigned char>(c);
  to->push_back(kHexDigits[byte >> 4]);
  to->push_back(kHexDigits[byte & 0xf]);
}

// Reads two digits at text[at].
bool ReadHexByte(std::string_view text, size_t at, char* byte) {
  if (text.size() < 2 || at > text.size() - 2) return false;
  const int high = HexValue(text[at]);
  const int low = HexValue(text[at + 1]);
  if (high < 0 || low < 0) return false;
  *byte = static_cast<char>(high << 4 | low);
  return true;
}

}  // namespace

std::string Escape(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (const char c : bytes) {
    if (c == '\\') {
      text += "\\\\";
    } else if (c == '\n') {
      text += "\\n";
    } else if (c == '\t') {
      text += "\\t";
    } else if (c == '\r') {
      text += "\\r";
    } else if (c >= ' ' && c <= '~') {
      text.push_back(c);
    } else {
      text += "\\x";
      AppendHexByte(&text, c);
    }
  }
  return text;
}

absl::StatusOr<std::string> Unescape(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      bytes.push_back(text[i]);
      continue;
    }
    const size_t start = i;
    const char kind = ++i < text.size() ? text[i] : '\0';
    char byte = 0;
    if (kind == '\\') {
      bytes.push_back('\\');
    } else if (kind == 'n') {
      bytes.push_back('\n');
    } else if (kind == 't') {
      bytes.push_back('\t');
    } else if (kind == 'r') {
      bytes.push_back('\r');
    } else if (kind == 'x' && ReadHexByte(text, i + 1, &byte)) {
      bytes.push_back(byte);
      i += 2;
    } else {
      return absl::InvalidArgumentError(absl::StrFormat(
          "\"%s\": no escape at byte %u; known are \\\\, \\n, \\t, \\r and \\xNN", text, start));
    }
  }
  return bytes;
}

std::string ToHex(std::string_view bytes) {
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (const char c : bytes) AppendHexByte(&hex, c);
  return hex;
}

absl::StatusOr<std::string> FromHex(std::string_view hex) {
  if (hex.size() % 2 != 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("\"%s\": an odd number of hexadecimal digits", hex));
  }
  std::string bytes;
  bytes.reserve(hex.size() / 2);
  for (size_t i = 0; i < hex.size(); i += 2) {
    char byte = 0;
    if (!ReadHexByte(hex, i, &byte)) {
      return absl::InvalidArgumentError(
          absl::StrFormat("\"%s\": no hexadecimal digits at byte %u", hex, i));
    }
    bytes.push_back(byte);
  }
  return bytes;
}

}  // namespace sievedb
