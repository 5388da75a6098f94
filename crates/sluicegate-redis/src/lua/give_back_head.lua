-- give_back: takes back parts of what earlier takes counted: of the window, entry or level that was charged, and of
-- nothing else. Twin of `give_back` in fixed_window.rs, sliding_log.rs, sliding_counter.rs and bucket.rs, and of `settle`
-- in quota.rs.
--
-- KEYS[i]  the record of one subject.
-- ARGV[i]  what comes back to it: one part of 37 bytes after another, '<I5dddd': tag, the tick of the charge, the window
--          (of a bucket: what drains per tick), what comes back (of a bucket: in its units), and what a quota counts in its
--          place, else 0.
-- Reply    the records as they now are, in a list. A charge that cannot be placed any more gives nothing back. An error
--          comes before the first write: 'MALFORMED' for a record that no script of ours wrote.
--
-- A record keeps its time to live: what is given back resets no later than before. Only a quota whose charge is not known any
-- more is counted anew, in a period that is not over.
--
-- Loops end as in take: 128 parts, the limits of one subject, 1,000 entries of a log.
local call, unpack, pack, sub = redis.call, struct.unpack, struct.pack, string.sub
local records, changed, count = {}, {}, #KEYS
-- Now in microseconds, where a quota may be counted anew: to give back nothing is.
local now_us = math.huge
