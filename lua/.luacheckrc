-- The scripts are joined into one program by core/src/store/script.rs, so what one defines the
-- next one uses.
std = "lua51"
read_globals = { "redis", "struct", "KEYS", "ARGV" }
max_line_length = 120
files["common.lua"] = { ignore = { "211" } }
files["bucket.lua"] = { ignore = { "211" }, read_globals = { "floor", "ceil", "min", "max", "muldiv", "lifetime" } }
local rule = {
  globals = { "rules" },
  read_globals = {
    "floor", "ceil", "min", "max", "EXACT", "muldiv", "lifetime",
    "load_level", "save_level", "view_level", "debt_without",
  },
}
for _, name in ipairs({
  "token-bucket", "gcra", "leaky-bucket", "fixed-window", "sliding-window", "sliding-log", "concurrency", "run",
}) do
  files[name .. ".lua"] = rule
end
