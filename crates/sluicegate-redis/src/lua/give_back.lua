local lives = {}
for i = 1, count do
  local record, parts, written, seen = call('GET', KEYS[i]) or '', ARGV[i], {}, {}
  local from, size, last, anew = 1, #record, 0, false
  while from <= size do
    local found, resets, first, second = unpack('<I5I5dd', record, from)
    local machine = found % 256
    local ends = from + (machine == 2 and 26 + 10 * second or machine == 3 and 34 or 26)
    if machine < 1 or machine > 5 or not (ends >= from + 26 and ends <= size + 1) then
      return redis.error_reply('MALFORMED the record is not one of this store')
    end
    local entry = sub(record, from, ends - 1)
    for at = 1, #parts, 37 do
      local tag, charged_at, span, returned, instead = unpack('<I5dddd', parts, at)
      if tag == found then
        changed[i], seen[tag] = true, true
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
        elseif machine == 5 then
          if charged_at == first then
            second = (second > returned and second - returned or 0) + instead
          elseif first < charged_at and instead > 0 and charged_at + span > now_us then
            first, second, anew = charged_at, instead, true
            resets = (charged_at + span) / 1000000 + 1
          end
          if second > 9007199254740992 then second = 9007199254740992 end
        elseif charged_at >= first and charged_at < first + span then
          second = second > returned and second - returned or 0
        elseif machine == 3 and charged_at < first and first - charged_at <= span then
          local previous = unpack('<d', more)
          more = pack('<d', previous > returned and previous - returned or 0)
        end
        entry = pack('<I5I5dd', tag, resets, first, second) .. more
      end
    end
    if resets > last then last = resets end
    written[#written + 1] = entry
    from = ends
  end
  for at = 1, #parts, 37 do
    local tag, charged_at, span, _, instead = unpack('<I5dddd', parts, at)
    if tag % 256 == 5 and instead > 0 and not seen[tag] and charged_at + span > now_us then
      changed[i], anew = true, true
      local resets = (charged_at + span) / 1000000 + 1
      if resets > last then last = resets end
      written[#written + 1] = pack('<I5I5dd', tag, resets, charged_at, instead)
    end
  end
  if anew then lives[i] = string.format('%d', last - (now_us - now_us % 1000000) / 1000000 + 8) end
  records[i] = table.concat(written)
end
for i = 1, count do
  if lives[i] then
    call('SET', KEYS[i], records[i], 'EX', lives[i])
  elseif changed[i] then
    call('SET', KEYS[i], records[i], 'KEEPTTL')
  end
end
