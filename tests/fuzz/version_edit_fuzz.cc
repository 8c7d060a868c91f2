// Version edits from anywhere: an error, or an edit that comes back as it is.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "db/version_edit.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto edit = sievedb::VersionEdit::Decode({reinterpret_cast<const char*>(data), size});
  if (!edit.ok()) return 0;
  const auto again = sievedb::VersionEdit::Decode(edit->Encode());
  if (!again.ok() || again->DebugString() != edit->DebugString()) std::abort();
  return 0;
}
