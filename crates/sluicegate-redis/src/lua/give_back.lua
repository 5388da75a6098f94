for i = 1, count do
  local record, parts, written = call('GET', KEYS[i]) or '', ARGV[i], {}
  local from, size = 1, #record
  while from <= size do
    local found, resets, first, second = unpack('<I5I5dd', record, from)
    local machine = found % 256
    local ends = from + (machine == 2 and 26 + 10 * second or machine == 3 and 34 or 26)
    if machine < 1 or machine > 5 or not (ends >= from + 26 and ends <= size + 1) then
      return redis.error_reply('MALFORMED the record is not one of this store')
    end
    local entry = sub(record, from, ends - 1)
    for at = 1, #parts, 29 do
      local tag, charged_at, span, returned = unpack('<I5ddd', parts, at)
      if tag == found then
        changed[i] = true
        local more = sub(entry, 27)
        if machine == 2 then
          local items, number = {}, second
          for item = 1, number do
            local time, cost = unpack('<dI2', entry, 17 + 10 * item)
            if time == charged_at then
              local back = returned < cost and returned or cost
              cost = cost - back
              first = first > back and first - back or 0
            end
            -- The newest stays at cost 0: the log's time does not run backwards.
            if cost > 0 or item == number then
              items[#items + 1] = pack('<dI2', time, cost)
            end
          end
          second, more = #items, table.concat(items)
        elseif machine == 4 then
          if first >= charged_at then
            -- What may have drained since is gone. Inexact only where it is far above what was charged.
            local back = returned - span * (first - charged_at)
            if back > 0 then second = second > back and second - back or 0 end
          end
        elseif charged_at >= first and charged_at < first + span then
          second = second > returned and second - returned or 0
        elseif machine == 3 and charged_at < first and first - charged_at <= span then
          local previous = unpack('<d', more)
          more = pack('<d', previous > returned and previous - returned or 0)
        end
        entry = pack('<I5I5dd', tag, resets, first, second) .. more
      end
    end
    written[#written + 1] = entry
    from = ends
  end
  records[i] = table.concat(written)
end
for i = 1, count do
  if changed[i] then call('SET', KEYS[i], records[i], 'KEEPTTL') end
end
