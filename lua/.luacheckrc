-- The scripts are joined into one program by core/src/store/script.rs, so what one defines the
-- next one uses.
std = "lua51"
read_globals = { "redis", "struct", "KEYS", "ARGV" }
max_line_length = 120
files["common.lua"] = { ignore = { "211", "311" } }
local shared = {
  "floor", "ceil", "min", "max", "call", "to_bytes", "from_bytes", "EXACT", "now", "muldiv", "lifetime",
}
for _, name in ipairs({ "bucket", "arrival", "slices", "log" }) do
  files[name .. ".lua"] = { ignore = { "211" }, read_globals = shared }
end
local rule = {
  globals = { "rules" },
  read_globals = {
    "level", "longer", "add_span", "arrival", "slice_at", "slice_start", "shifted", "total", "newest_used",
    "ENTRY", "entry_at", "search_log", "push_entry", "log_at", "log_used", "begin_log", "expire_log", "give_back",
    unpack(shared),
  },
}
for _, name in ipairs({
  "token-bucket", "gcra", "leaky-bucket", "fixed-window", "sliding-window", "sliding-log", "concurrency", "run",
}) do
  files[name .. ".lua"] = rule
end
