-- BEAT: renews the lease of an incarnation, checks the books, tells who waits.
--
-- ARGV  1 "1"   2 inc   3 known generation   4 stall ms   5 lease ms   6 floor lease ms
--       7 fv: versions up to it are settled    8 bv: its own version, the highest sent so far
--       9 count, then count x (leaf, n, idle, v): EVERY leaf the store may hold something of for this
--         incarnation, as last confirmed (n and v of the last counted reply; 0 0 0 if none yet; idle
--         as it is now); or "-1" and nothing more: renew only
-- Reply {"OK", learning ms left, floor learning ms left, {scope under pressure, …}}
--       {"NEWGEN"}   memory lost or found damaged, or another generation: JOIN. NOT renewed
--       {"NOLEASE"}  the lease lapsed: fence
--
-- Whatever does not agree (table with entries, entries with rows, rows with sums) was not written by
-- us. It is not repaired in place: while an answer is under way this incarnation does not know its own
-- true number, and a repair could lower it. It is a loss, and everybody asserts again.
--
-- Cost: O(leaves sent + rows of their scopes), independent of slots held. Writes what differs.

local lease_ms, floor_ms = int(ARGV[5]), int(ARGV[6])
local fv, bv, count = int(ARGV[7]), int(ARGV[8]), ARGV[9] == '-1' and -1 or int(ARGV[9])
if not (well_formed and lease_ms and floor_ms and fv and bv and count) or fv > bv or count > 1000
  or #ARGV ~= 9 + 4 * math.max(0, count) then
  return fail('SGARG', 'beat: malformed arguments')
end

-- Leaves as sent, and the scopes they touch, each once.
local items, scopes, sums = {}, {}, {}
local fields = { 'sg', 'h', 'pr', 'L|' .. inc }
for i = 1, count do
  local at = 6 + 4 * i
  local leaf, n, idle, v = ARGV[at], slots(ARGV[at + 1]), slots(ARGV[at + 2]), int(ARGV[at + 3])
  local path = split(leaf)
  if not (path and n and idle and v) or idle > n or v > bv or items[leaf] then
    return fail('SGARG', 'beat: bad leaf ' .. i)
  end
  items[i], items[leaf] = { n = n, idle = idle, v = v, path = path }, true
  fields[4 + i] = 'E|' .. inc .. '|' .. leaf
  for _, scope in ipairs(path) do
    if not sums[scope] then
      scopes[#scopes + 1], sums[scope] = scope, { n = 0, idle = 0, fresh = 0 }
    end
  end
end
for _, scope in ipairs(scopes) do
  fields[#fields + 1] = 'S|' .. scope
end
if #fields > 4000 then
  return fail('SGARG', 'beat: too many leaves for one call')
end

local c, reply = open(fields)
if not c then
  return reply
end

-- A delayed beat knows nothing of newer commands, newer beats among them: it renews and checks nothing.
local out, gone = {}, {}
local complete = c.lease.mv <= bv
fv = math.max(fv, c.lease.fv)

-- An entry against its line of the table. Equal versions mean the same executed command, so the same
-- number; a higher stored version is a command whose answer is under way; a lower one cannot be. Only
-- an empty and settled entry can be absent.
local function agrees(item, stored, n, v)
  if not stored then
    return item.n == 0 and item.v <= c.lease.fv
  end
  return v > item.v or (v == item.v and n == item.n)
end

for i = 1, count do
  local item = items[i]
  local n, idle, v = parse_entry(c.got[4 + i], c.lease)
  if not n or (complete and not agrees(item, c.got[4 + i], n, v)) then
    return damaged(fields[4 + i])
  end
  local fresh = complete and v == item.v and math.min(item.idle, n) or idle
  if fresh ~= idle then
    out[#out + 1], out[#out + 2] = fields[4 + i], show_entry(n, fresh, v)
  end
  -- An empty entry only keeps its version; fv says that no older command may still count. One whose
  -- holder does not know yet that it is empty stays: the next table would miss it.
  if complete and c.got[4 + i] and n == 0 and v == item.v and v <= fv then
    gone[#gone + 1] = fields[4 + i]
  end
  for _, scope in ipairs(item.path) do
    local sum = sums[scope]
    sum.n, sum.idle, sum.fresh = sum.n + n, sum.idle + idle, sum.fresh + fresh
  end
end

-- This incarnation's row of every scope against its entries, and the rows against the sums.
for k, scope in ipairs(scopes) do
  local s, sum = parse_scope(c.got[4 + count + k]), sums[scope]
  if not s or not all_rows(s) or (complete and (s.n ~= sum.n or s.i ~= sum.idle)) then
    return damaged('S|' .. scope)
  end
  if sum.fresh ~= sum.idle then
    charge(s, 0, sum.fresh - sum.idle, c.lease.e)
    out[#out + 1], out[#out + 2] = 'S|' .. scope, show_scope(s)
  end
end

local h = c.h
h.lu, h.fu, h.lb = math.max(h.lu, h.fa + lease_ms), math.max(h.fu, h.fa + floor_ms), now
-- Never shorter than before: nx relies on it.
local ends = math.max(c.lease.e, now + (is_floor(inc) and floor_ms or lease_ms))
out[#out + 1], out[#out + 2] = 'L|' .. inc, show_lease(ends, fv, math.max(c.lease.mv, bv))
out[#out + 1], out[#out + 2] = 'h', show_header(h)
write(out, gone)

local waiting = {}
for scope in pairs(c.pressure) do
  waiting[#waiting + 1] = scope
end
return { 'OK', math.max(0, h.lu - now), math.max(0, h.fu - now), waiting }
