  records[i + 1], writes[i], lives[i] = record, written, life
end
if denied then
  records[1] = '\0'
  return records
end
local answered, counted = { ARGV[count + 1] }, false
for i = 1, count do
  if writes[i] then
    records[i + 1], counted = writes[i], true
  end
  answered[i + 1] = pack('<I4', #records[i + 1]) .. records[i + 1]
end
if not counted then return records end
for i = 1, count do
  if writes[i] then
    call('SET', KEYS[i], writes[i], 'EX', lives[i])
  end
end
call('SET', KEYS[count + 1], table.concat(answered), 'EX', '86410')
return records
