#!lua
-- One batch: what it expects, what it deletes, what it writes, the indexes, and what is told of it. All keys are in one slot.
-- KEYS: the records of the expectations, of the deletions, of the writes, in this order; then the indexes that change.
-- ARGV: now and what is due (ms), what the partition's keys begin with, the channel, how many expectations, deletions, writes and told
-- kinds there are; then the expectations, the kinds, the digests by which the deletions and writes are told (empty: not), and the rest of
-- each deletion and write.
-- Answers {0} for a conflict, else {1, its time}: the server's time in microseconds, and later than every version that any of the records
-- had. The n-th record that is written has the version time + n.
local now, due, base, channel = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local expectations, deletions, writes, kinds = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local taken = 8

local function take()
  taken = taken + 1
  return ARGV[taken]
end

-- Eight bytes as a number: exact below 2^53, and beyond it large enough.
local function number(bytes, first)
  local high, low = struct.unpack('>i4I4', bytes, first)
  return high * 4294967296 + low
end

local function bytes(number)
  return struct.pack('>I4I4', math.floor(number / 4294967296), number % 4294967296)
end

-- Of each expectation: what is expected, the lowest version that counts as there, and a version.
for i = 1, expectations do
  local head = redis.call('GETRANGE', KEYS[i], 0, 15)
  local expected = take()
  local what = string.sub(expected, 1, 1)
  local is_there = #head == 16 and now < number(head, 9) and number(head, 1) >= number(expected, 2)
  local holds
  if what == 'a' then
    holds = not is_there
  elseif what == 'p' then
    holds = is_there
  else
    holds = is_there and string.sub(head, 1, 8) == string.sub(expected, 10)
  end
  if not holds then
    return {0}
  end
end

local clock = redis.call('TIME')
local time = clock[1] * 1000000 + clock[2]
for i = expectations + 1, expectations + deletions + writes do
  local head = redis.call('GETRANGE', KEYS[i], 0, 7)
  if #head == 8 then
    time = math.max(time, number(head, 1))
  end
end

-- Before anything is written: where we may not tell others, nothing is done.
for _ = 1, kinds do
  redis.call('PUBLISH', channel, 'k' .. take())
end
local changed = {}
for i = 1, deletions + writes do
  local digest = take()
  if digest ~= '' then
    changed[#changed + 1] = i <= deletions and 'd' .. digest .. bytes(time) or 'p' .. digest .. bytes(time + i - deletions)
  end
end
if #changed > 0 then
  redis.call('PUBLISH', channel, 'c' .. table.concat(changed))
end

local expiries, is_listed = base .. 'expiries', false

for i = 1, deletions do
  local kind, id = take(), take()
  redis.call('DEL', KEYS[expectations + i])
  if kind ~= '' then
    is_listed = true
    redis.call('ZREM', base .. kind, id)
    redis.call('ZREM', expiries, kind .. '\0' .. id)
  end
end

for i = 1, writes do
  local name = KEYS[expectations + deletions + i]
  local kind, id, expires_at, score, lasts, value = take(), take(), take(), take(), take(), take()
  local record = bytes(time + i) .. expires_at .. value
  if lasts == '' then
    redis.call('SET', name, record)
  else
    redis.call('SET', name, record, 'PX', lasts)
  end
  if kind ~= '' then
    is_listed = true
    redis.call('ZADD', base .. kind, 0, id)
    if lasts == '' then
      redis.call('ZREM', expiries, kind .. '\0' .. id)
    else
      redis.call('ZADD', expiries, score, kind .. '\0' .. id)
    end
  end
end

-- Records leave by themselves; the indexes are cleared of a few of them at each write. One that is not to be had now (a Cluster may be
-- moving it; it is not among the keys) is cleared another time: all that was asked is done.
if is_listed then
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', expiries, '-inf', due, 'LIMIT', 0, 10)) do
    local zero, cleared = string.find(member, '\0', 1, true), nil
    if zero then
      cleared = redis.pcall('ZREM', base .. string.sub(member, 1, zero - 1), string.sub(member, zero + 1))
    end
    if not (type(cleared) == 'table' and cleared.err) then
      redis.call('ZREM', expiries, member)
    end
  end
end
return {1, time}
