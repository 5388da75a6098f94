-- login address: guesses from one address and its network. Twin of sluicegate-core/src/login/address.rs and gauge.rs.
--
-- KEYS[1]  the address's record: a version, 1; its time; three numbers of its gauge; when its names are forgotten; the
--          number of names, at most 20; the names, four bytes each.
-- KEYS[2]  the network's record: a version, 1; its time; three numbers of its gauge. In the slot of KEYS[1].
-- ARGV[1]  the rules, doubles: of the address, then of the network, whether it is a counter (1) or leaks (0) and of three
--          leaks burst and every (of a counter limit, ttl; lockout, 0; 0, 0); names from which guesses are challenged;
--          names from which further ones are refused. Then now, in ms.
-- ARGV[2]  '<I4Bd': the name; what is done: 0 holds a guess, 1 gives one back, 2 + n counts n more; when it was held.
-- Reply    '<BBd'. 0, 1 if every guess is challenged, and when it was held; or 1, 0 and when there is room. An error comes
--          before the first write: 'MALFORMED' for a record that no script of ours wrote.
--
-- Both are written with their time to live in one command: until nothing counts any more, and 10 seconds of grace.
-- Loops end: two records, three leaks, 20 names, 255 units.
local call, pack, unpack = redis.call, struct.pack, struct.unpack
local size = #ARGV[1]
local challenged, refused, now = unpack('<ddd', ARGV[1], size - 23)
local name, done, charged_at = unpack('<I4Bd', ARGV[2])
local gauges, names, names_until, known = {}, {}, 0, false
for i = 1, 2 do
  local record, from = call('GET', KEYS[i]), 56 * i - 55
  local kind, b1, e1, b2, e2, b3, e3 = unpack('<ddddddd', ARGV[1], from)
  local time, r1, r2, r3, till, count = 0, 0, 0, 0, 0, 0
  if record then
    if #record < 33 or string.byte(record) ~= 1 then
      return redis.error_reply('MALFORMED the record is not one of this store')
    end
    time, r1, r2, r3 = unpack('<dddd', record, 2)
    local back = time - now > 5000 and time - now or 0
    time = time - back
    if kind == 0 then r1 = r1 > back and r1 - back or 0 end
    r2, r3 = r2 > back and r2 - back or 0, r3 > back and r3 - back or 0
    if i == 1 then
      if #record < 42 then return redis.error_reply('MALFORMED the record is not one of this store') end
      till, count = unpack('<dB', record, 34)
      if #record ~= 42 + 4 * count then
        return redis.error_reply('MALFORMED the record is not one of this store')
      end
      names_until = till > back and till - back or 0
      if names_until > now then
        for at = 1, count do
          names[at] = unpack('<I4', record, 39 + 4 * at)
          if names[at] == name then known = true end
        end
      end
    end
  end
  gauges[i] = { { r1, r2, r3 }, kind == 1, { b1, b2, b3 }, { e1, e2, e3 }, time }
end
for i = 1, 2 do
  if gauges[i][5] > now then now = gauges[i][5] end
end
local reply = pack('<BBd', 0, 0, 0)
if done == 0 then
  local retry_at = 0
  for _, gauge in ipairs(gauges) do
    local reading, counter, burst, every = gauge[1], gauge[2], gauge[3], gauge[4]
    if counter then
      if reading[3] > now and reading[3] > retry_at then retry_at = reading[3] end
      local used = reading[2] > now and reading[1] or 0
      local till = reading[2] > now and reading[2] or now + every[1]
      if burst[2] == 0 and used >= burst[1] and till > retry_at then retry_at = till end
    else
      for i = 1, 3 do
        local room = (burst[i] - 1) * every[i]
        if every[i] > 0 and reading[i] - now > room and reading[i] - room > retry_at then
          retry_at = reading[i] - room
        end
      end
    end
  end
  if not known and #names >= refused and names_until > retry_at then retry_at = names_until end
  if retry_at > 0 then return pack('<BBd', 1, 0, retry_at) end
  reply = pack('<BBd', 0, #names >= challenged and 1 or 0, now)
  if #names == 0 then names_until = now + 3600000 end
  if not known then names[#names + 1] = name end
elseif done == 1 then
  for i = #names, 1, -1 do
    if names[i] == name then table.remove(names, i) end
  end
end
for _, gauge in ipairs(gauges) do
  local reading, counter, burst, every = gauge[1], gauge[2], gauge[3], gauge[4]
  if done == 1 and counter then
    local here = reading[2] > now and reading[2] - every[1] <= charged_at
    local locked_by_it = reading[3] == charged_at + burst[2]
    if here and reading[1] > 0 then reading[1] = reading[1] - 1 end
    if locked_by_it or here and reading[1] < burst[1] then reading[3] = 0 end
  elseif done == 1 then
    for i = 1, 3 do
      local left = every[i] - (now > charged_at and now - charged_at or 0)
      if left > 0 then reading[i] = reading[i] > left and reading[i] - left or 0 end
    end
  end
  for _ = 1, done == 0 and 1 or done - 2 do
    if counter then
      local live = reading[2] > now
      reading[1] = (live and reading[1] or 0) + 1
      reading[2] = live and reading[2] or now + every[1]
      if burst[2] > 0 and reading[1] >= burst[1] and reading[3] <= now then reading[3] = now + burst[2] end
    else
      for i = 1, 3 do
        if every[i] > 0 then reading[i] = (reading[i] > now and reading[i] or now) + every[i] end
      end
    end
  end
end
for i = 1, 2 do
  local reading, written, last = gauges[i][1], {}, 0
  for at = gauges[i][2] and 2 or 1, 3 do
    if reading[at] > last then last = reading[at] end
  end
  written[1] = pack('<Bdddd', 1, now, reading[1], reading[2], reading[3])
  if i == 1 then
    if names_until > last then last = names_until end
    written[2] = pack('<dB', names_until, #names)
    for at = 1, #names do
      written[at + 2] = pack('<I4', names[at])
    end
  end
  local life = string.format('%.0f', (last > now and last - now or 0) + 10000)
  call('SET', KEYS[i], table.concat(written), 'PX', life)
end
return reply
