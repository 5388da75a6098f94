  if count > 1 then
    records[i + 1], writes[i], lives[i] = record, written, life
  end
end
if count == 1 then
  if denied then return '\0' .. record end
  if not written then return record end
  call('SET', KEYS[1], written, 'EX', life)
  return written
end
if denied then
  records[1] = '\0'
  return records
end
for i = 1, count do
  if writes[i] then
    call('SET', KEYS[i], writes[i], 'EX', lives[i])
    records[i + 1] = writes[i]
  end
end
return records
