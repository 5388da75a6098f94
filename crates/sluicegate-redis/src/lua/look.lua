-- look: reads several records at one instant. Unlike MGET it tells a key without a record from one that holds something
-- else: that is the error 'WRONGTYPE'.
--
-- KEYS[i]  the record of one subject.
-- Reply    the records in a list, '' for one that is not there.
--
-- The loop ends: a request has at most 128 asks.
local records = {}
for i = 1, #KEYS do
  records[i] = redis.call('GET', KEYS[i]) or ''
end
return records
