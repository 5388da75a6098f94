count = count - 1
now_us = unpack('<d', ARGV[count + 1], 17)
local known = call('GET', KEYS[count + 1])
if known and unpack('<d', known, 17) + 86400000000 > now_us then return known end
