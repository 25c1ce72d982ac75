-- BOARD: the words on engine endpoints that drain, and what each replica has there. It lies beside the
-- quota domain, in the same hash slot, and only reads from it who lives. core/endpoint_drain has the
-- rules; this is its `Board`.
--
-- KEYS  1 the quota domain   2 the board
-- ARGV  1 "1"   2 inc, or "o0" without a lease   3 ""   4 stall ms   5 number of this exchange
--       6 count, then count x (endpoint, version, base, by, stance, age ms, wait ms): words for it
--       then count, then count x (endpoint, version, n): ALL shares of this replica
-- Reply {"OK", sure, {live inc, …}, {{endpoint, version, by, stance, age ms, wait ms}, …},
--        {{inc, endpoint, version, n}, …}}
--       sure 0: who lives is not known at the moment
--
-- Fields of the board, a hash without TTL:
--   sg             layout number, "1"
--   W|<endpoint>   "<version> <by> <stance> <since> <wait>": the word, since and wait in ms
--   R|<inc>|<endpoint>   "<number> <version> <n>": what the incarnation last reported
--
-- A word replaces another only by a higher version and no lower base; a share only one of a lower exchange. Words that
-- let serve are kept for a day; shares of the dead and of older words go. A change is published on
-- the channel of the board's name.
--
-- Cost: O(fields of the board), and O(fields of the domain) while something drains.

local B = KEYS[2]
local REMEMBERED = 86400000
local number, at = int(ARGV[5]), 6

local function fits(text)
  return text and #text > 0 and #text <= 300 and not string.find(text, '[%c ]')
end

local function rows(width)
  local count, out = int(ARGV[at]), {}
  if not count or count > 10000 or #ARGV < at + count * width then
    return nil
  end
  for i = 1, count do
    local row = {}
    for k = 1, width do
      row[k] = ARGV[at + (i - 1) * width + k]
    end
    out[i] = row
  end
  at = at + count * width + 1
  return out
end

local words, shares = rows(7), rows(3)
if #KEYS ~= 2 or ARGV[1] ~= '1' or not (stall and number and words and shares) or at ~= #ARGV + 1 then
  return fail('SGARG', 'board: malformed arguments')
end
for _, w in ipairs(words) do
  if not (fits(w[1]) and int(w[2]) and int(w[3]) and fits(w[4]) and fits(w[5]) and int(w[6]) and int(w[7])) then
    return fail('SGARG', 'board: malformed word')
  end
end
for _, s in ipairs(shares) do
  if not (fits(s[1]) and int(s[2]) and slots(s[3])) then
    return fail('SGARG', 'board: malformed share')
  end
end

local flat = redis.pcall('HGETALL', B)
if flat.err then
  return fail('SGTYPE', 'the key does not hold a drain board: ' .. flat.err)
end
local stored = {}
for i = 1, #flat, 2 do
  stored[flat[i]] = flat[i + 1]
end
if #flat > 0 and not stored.sg then
  return fail('SGTYPE', 'the key holds a hash that is not ours: choose another key prefix, or delete it')
end
if stored.sg and stored.sg ~= '1' then
  return fail('SGLAYOUT', 'the key holds another layout than 1: choose another key prefix')
end

-- A word as stored, or nil: an edited one counts as absent, and whoever knows it says it again.
local function parse_word(raw)
  local v, by, stance, since, wait = string.match(raw or '', '^(%d+) (%S+) (%l+) (%d+) (%d+)$')
  v, since, wait = int(v), int(since), int(wait)
  if v and since and wait then
    return { v = v, by = by, stance = stance, since = since, wait = wait }
  end
end

local function drains(word)
  return word.stance == 'ordered' or word.stance == 'answered'
end

local out, gone, told = {}, {}, false
local function put(field, value)
  stored[field] = value
  out[#out + 1], out[#out + 2] = field, value
end
local function drop(field)
  stored[field] = nil
  gone[#gone + 1] = field
end

for _, w in ipairs(words) do
  local field = 'W|' .. w[1]
  local known = parse_word(stored[field])
  local v = known and known.v or 0
  if int(w[2]) > v and int(w[3]) >= v then
    local since = math.max(0, now - int(w[6]))
    put(field, string.format('%.0f %s %s %.0f %.0f', int(w[2]), w[4], w[5], since, int(w[7])))
    told = true
  end
end

local shown, by_endpoint, busy = {}, {}, false
for field, raw in pairs(stored) do
  local endpoint = string.match(field, '^W|(.+)$')
  local word = endpoint and parse_word(raw)
  if endpoint and (not word or not drains(word) and now - word.since >= REMEMBERED) then
    gone[#gone + 1] = field
  elseif endpoint then
    by_endpoint[endpoint], busy = word, busy or drains(word)
    shown[#shown + 1] =
      { endpoint, word.v, word.by, word.stance, math.max(0, now - word.since), word.wait }
  end
end

-- Who lives. Nobody needs to know while nothing drains.
local sure, alive, names = 0, {}, {}
if busy then
  local domain = redis.pcall('HGETALL', K)
  local fields = {}
  for i = 1, domain.err and 0 or #domain, 2 do
    fields[domain[i]] = domain[i + 1]
  end
  local h = fields.sg == '1' and memory(fields.sg, fields.h)
  if h and h ~= 'lost' and h.lu <= now then
    sure = 1
    for field, value in pairs(fields) do
      local who = string.match(field, '^L|(o%w+)$')
      if who and live(parse_lease(value)) then
        alive[who] = true
        names[#names + 1] = who
      end
    end
  end
end

if inc ~= 'o0' then
  for _, s in ipairs(shares) do
    local field = 'R|' .. inc .. '|' .. s[1]
    local n, v, count = string.match(stored[field] or '', '^(%d+) (%d+) (%d+)$')
    if not n or tonumber(n) < number then
      put(field, string.format('%.0f %.0f %.0f', number, int(s[2]), slots(s[3])))
      told = told or tonumber(v) ~= int(s[2]) or tonumber(count) ~= slots(s[3])
    end
  end
end
local reported = {}
for field, raw in pairs(stored) do
  local who, endpoint = string.match(field, '^R|(%w+)|(.+)$')
  if who then
    local _, v, n = string.match(raw, '^(%d+) (%d+) (%d+)$')
    local word = by_endpoint[endpoint]
    if not v or (sure == 1 and not alive[who]) or not word or not drains(word) or tonumber(v) < word.v then
      gone[#gone + 1] = field
    else
      reported[#reported + 1] = { who, endpoint, tonumber(v), tonumber(n) }
    end
  end
end

if #out > 0 and not stored.sg then
  out[#out + 1], out[#out + 2] = 'sg', '1'
end
for i = 1, #out, 1000 do
  redis.call('HSET', B, unpack(out, i, math.min(i + 999, #out)))
end
for i = 1, #gone, 1000 do
  redis.call('HDEL', B, unpack(gone, i, math.min(i + 999, #gone)))
end
if told then
  redis.pcall('PUBLISH', B, 'f drain')
end
return { 'OK', sure, names, shown, reported }
