#ifndef SIEVEDB_DB_FILE_NAMES_H_
#define SIEVEDB_DB_FILE_NAMES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sievedb {

// Names of the files of a database. Numbers have at least six digits.
std::string TableFileName(const std::string& db, uint64_t number);     // db/000007.sst
std::string WalFileName(const std::string& db, uint64_t number);       // db/000007.wal
std::string ManifestFileName(const std::string& db, uint64_t number);  // db/MANIFEST-000007
std::string OptionsFileName(const std::string& db, uint64_t number);   // db/OPTIONS-000007
std::string CurrentFileName(const std::string& db);
std::string LockFileName(const std::string& db);
std::string EventLogFileName(const std::string& db);

enum class FileKind { kTable, kWal, kManifest, kOptions, kCurrent, kLock, kEventLog, kTemporary };
struct ParsedFileName {
  FileKind kind;
  uint64_t number = 0;  // where the kind has one
};
// No database counts so far: a file with a higher number is a stranger's. To go on
// counting from it could wrap.
inline constexpr uint64_t kMaxOwnFileNumber = uint64_t{1} << 60;

// nullopt for a name (without directory) that is not one of ours.
std::optional<ParsedFileName> ParseFileName(std::string_view name);

}  // namespace sievedb

#endif  // SIEVEDB_DB_FILE_NAMES_H_
