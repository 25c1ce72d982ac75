-- BEAT: renews the lease of an incarnation, heals what was edited by hand, tells who waits.
--
-- ARGV  1 "1"   2 inc   3 known generation   4 stall ms   5 lease ms   6 floor lease ms
--       7 fv: versions up to it are settled    8 bv: the highest version sent when this was built
--       9 count, then count x (leaf, n, idle, v): EVERY leaf the store may hold something of for this
--         incarnation, as last confirmed (n and v of the last counted reply; 0 0 0 if none yet; idle
--         as it is now); or "-1" and nothing more: renew only
-- Reply {"OK", learning ms left, floor learning ms left, numbers healed, {scope under pressure, …}}
--       {"NEWGEN"}   memory lost, or another generation: JOIN. The lease was NOT renewed
--       {"NOLEASE"}  the lease lapsed: fence
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
      scopes[#scopes + 1], sums[scope] = scope, { n = 0, idle = 0 }
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

-- A delayed beat does not know the leaves touched by newer commands and would erase them from the
-- sums: it renews, and heals nothing.
local out, gone, healed = {}, {}, 0
local heal = c.lease.mv <= bv
fv = math.max(fv, c.lease.fv)

-- Entries first. Equal versions mean the same executed command, so another number under the same
-- version was not written by us; a higher stored version is a command whose answer is under way.
for i = 1, count do
  local item = items[i]
  local n, idle, v = parse_entry(c.got[4 + i], c.lease)
  if not n then
    return damaged(fields[4 + i])
  end
  if heal and (v < item.v or (v == item.v and (n ~= item.n or idle ~= item.idle))) then
    healed = healed + (n ~= item.n and 1 or 0)
    n, idle, v = item.n, item.idle, item.v
    out[#out + 1] = fields[4 + i]
    out[#out + 1] = n .. ' ' .. idle .. ' ' .. v
  end
  -- An empty entry only keeps its version; fv says that no older command may still count.
  if heal and n == 0 and v <= fv then
    gone[#gone + 1] = fields[4 + i]
  end
  for _, scope in ipairs(item.path) do
    local sum = sums[scope]
    sum.n, sum.idle = sum.n + n, sum.idle + idle
  end
end

-- Then this incarnation's row of every scope: the sum of its entries below it.
for k, scope in ipairs(scopes) do
  local s, sum = parse_scope(c.got[4 + count + k]), sums[scope]
  if not s or not all_rows(s) then
    return damaged('S|' .. scope)
  end
  if heal and (s.n ~= sum.n or s.i ~= sum.idle) then
    healed = healed + (s.n ~= sum.n and 1 or 0)
    charge(s, sum.n - s.n, sum.idle - s.i, c.lease.e)
    out[#out + 1] = 'S|' .. scope
    out[#out + 1] = show_scope(s)
  end
end

local h = c.h
h.lu, h.fu, h.lb = math.max(h.lu, h.fa + lease_ms), math.max(h.fu, h.fa + floor_ms), now
local ends = now + (is_floor(inc) and floor_ms or lease_ms)
out[#out + 1], out[#out + 2] = 'L|' .. inc, ends .. ' ' .. fv .. ' ' .. math.max(c.lease.mv, bv)
out[#out + 1], out[#out + 2] = 'h', show_header(h)
write(out, gone)

local waiting = {}
for scope in pairs(c.pressure) do
  waiting[#waiting + 1] = scope
end
return { 'OK', math.max(0, h.lu - now), math.max(0, h.fu - now), healed, waiting }
