count = count - 1
local known = call('GET', KEYS[count + 1])
if not known or unpack('<d', known, 9) ~= unpack('<d', ARGV[count + 1]) then return {} end
