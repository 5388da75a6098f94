  records[i + 1], writes[i], lives[i] = record, written, life
  if string.byte(ARGV[count + 1], i) == 1 then
    if denied then
      records[first + 1] = '\0' .. records[first + 1]
    else
      for at = first, i do
        if writes[at] then
          records[at + 1] = writes[at]
          kept[KEYS[at]], lives_for[KEYS[at]] = writes[at], lives[at]
        end
      end
    end
    first, denied = i + 1, false
  end
  read = kept[KEYS[i + 1]]
end
for i = 1, count do
  if kept[KEYS[i]] then
    call('SET', KEYS[i], kept[KEYS[i]], 'EX', lives_for[KEYS[i]])
    kept[KEYS[i]] = nil
  end
end
return records
