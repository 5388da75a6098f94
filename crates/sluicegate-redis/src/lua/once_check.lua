count = count - 1
local known = call('GET', KEYS[count + 1])
if known and unpack('<d', known, 17) + 86400000000 > unpack('<d', ARGV[count + 1], 17) then
  return { '=', known }
end
