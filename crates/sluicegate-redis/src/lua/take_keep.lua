    end
    if entry then
      if resets > last then last = resets end
      written = written and written .. entry or entry
    elseif from > begins then
      -- Cost 0 counts nothing: the entry stays as it was.
      local same = string.sub(record, begins, from - 1)
      written = written and written .. same or same
      if resets > held then held = resets end
    end
  end
  if last > 0 and not denied then
    local second = (now_us - now_us % 1000000) / 1000000
    if held > last then last = held end
    while from <= size do
      -- Entries of limits that the request does not know.
      local found, resets, _, number = unpack('<I5I5dd', record, from)
      local kind = found % 256
      local ends = from + (kind == 2 and 26 + 10 * number or kind == 3 and 34 or 26)
      if kind < 1 or kind > 5 or not (ends >= from + 26 and ends <= size + 1) then
        return redis.error_reply('MALFORMED the record is not one of this store')
      end
      if resets > second then
        written = written .. string.sub(record, from, ends - 1)
        if resets > last then last = resets end
      end
      from = ends
    end
    life = string.format('%d', last - second + 8)
  else
    written = false
  end
