count = count - 1
local known = call('GET', KEYS[count + 1])
if known then
  local asked_at, attempt = unpack('<dd', ARGV[count + 1])
  local counted_at, owner = unpack('<dd', known)
  if counted_at + 86400000000 > asked_at then
    if owner > attempt then return { '>' } end
    call('SET', KEYS[count + 1], pack('<dd', counted_at, attempt) .. string.sub(known, 17), 'KEEPTTL')
    return { '=', known }
  end
end
