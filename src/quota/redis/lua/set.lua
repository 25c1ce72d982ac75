-- SET: "this incarnation shall hold so many slots of these leaves". Absolute numbers under a version.
-- All scopes of a leaf's path are charged together or not at all.
--
-- ARGV  1 "1"   2 inc   3 known generation   4 stall ms   5 pressure ms   6 v
--       7 scopes, then scopes x (scope, cap or -1, rev, floor): every scope of every leaf below
--       then entries, then entries x (leaf, need, want): need = running + waiting,
--         want = need + spare wished, want >= need
--       then meters: 0. (Rates and token budgets will be listed here, checked after the slots and
--         charged only if everything has room.)
-- Reply {"OK", learning ms left, {{n, code, blocking scope's index or 0}, … per entry},
--                                {{cap, total, idle, pressed 0|1}, … per scope}}
--         code: OK        n >= need
--               FULL      the scope has no room and nobody holds an unused slot of it
--               SPARE     the scope has no room, but somebody holds unused slots: they were asked
--               LEARNING  what is free is not known yet (ordinary), or not granted yet (floors)
--         n < need unless OK; n is never below what was held (or below want, if that is less)
--       {"STALE"}    a command with this or a higher version was executed for one of the leaves
--       {"NEWGEN"}   memory lost, or another generation: JOIN
--       {"NOLEASE"}  the lease lapsed: fence
--
-- Cost: O(scopes + entries), whatever the fleet's size; the rows of a scope are read only when it has
-- no room and a lease in it may have ended.

local press_ms, v, count = int(ARGV[5]), int(ARGV[6]), int(ARGV[7])
if not (well_formed and press_ms and v and count) or count > 1000 then
  return fail('SGARG', 'set: malformed arguments')
end

-- Arguments: the scopes with their configuration, then the entries.
local given, index, fields = {}, {}, { 'sg', 'h', 'pr', 'L|' .. inc }
local at = 7
for k = 1, count do
  local name = ARGV[at + 1]
  local g = { name = name, cap = limit(ARGV[at + 2]), rev = int(ARGV[at + 3]), floor = slots(ARGV[at + 4]) }
  if not (name and g.cap and g.rev and g.floor) or index[name] then
    return fail('SGARG', 'set: bad scope ' .. k)
  end
  given[k], index[name], fields[4 + k] = g, k, 'S|' .. name
  at = at + 4
end
local entries, named = {}, {}
at = at + 1
for i = 1, int(ARGV[at]) or -1 do
  local leaf, need, want = ARGV[at + 1], slots(ARGV[at + 2]), slots(ARGV[at + 3])
  local path = split(leaf)
  if not (path and need and want) or want < need or named[leaf] then
    return fail('SGARG', 'set: bad entry ' .. i)
  end
  for j = 1, #path do
    path[j] = index[path[j]]
    if not path[j] then
      return fail('SGARG', 'set: a scope of entry ' .. i .. ' is not listed')
    end
  end
  entries[i], named[leaf] = { need = need, want = want, path = path, code = 'OK', block = 0 }, true
  fields[4 + count + i] = 'E|' .. inc .. '|' .. leaf
  at = at + 3
end
if #entries == 0 or ARGV[at + 1] ~= '0' or #ARGV ~= at + 1 or #fields > 4000 then
  return fail('SGARG', 'set: malformed arguments')
end

local c, reply = open(fields)
if not c then
  return reply
end
local ends = c.lease.e

-- Entries: versions and damage. One stale leaf makes the whole call stale; nothing was written yet.
for i, e in ipairs(entries) do
  local n, idle, version = parse_entry(c.got[4 + count + i], c.lease)
  if not n then
    return damaged(fields[4 + count + i])
  end
  if v <= version or v <= c.lease.fv then
    return { 'STALE' }
  end
  e.n, e.idle, e.old = n, idle, n
end

-- Scopes: the stored numbers, under the newest configuration seen. Of two configurations with the
-- same revision the stricter counts, so that the order of calls does not matter.
local scopes = {}
for k, g in ipairs(given) do
  local s = parse_scope(c.got[4 + k])
  if not s then
    return damaged(fields[4 + k])
  end
  if g.rev > s.rev then
    s.cap, s.rev, s.floor, s.dirty = g.cap, g.rev, g.floor, true
  elseif g.rev == s.rev then
    if g.cap ~= UNLIMITED and (s.cap == UNLIMITED or g.cap < s.cap) then
      s.cap, s.dirty = g.cap, true
    end
    if g.floor > s.floor then
      s.floor, s.dirty = g.floor, true
    end
  end
  s.low_n, s.low_i, s.pressed = 0, 0, c.pressure[g.name] ~= nil
  scopes[k] = s
end
-- Entries that exceed their row would turn it negative: damage.
for _, e in ipairs(entries) do
  for _, k in ipairs(e.path) do
    local s = scopes[k]
    s.low_n, s.low_i = s.low_n + e.n, s.low_i + e.idle
    if s.low_n > s.n or s.low_i > s.i then
      return damaged('E below ' .. fields[4 + k])
    end
  end
end

local floor_class = is_floor(inc)
local learning = (floor_class and c.h.fu or c.h.lu) > now

-- Slots of a scope that may still be granted to this incarnation. After a loss, floors that were not
-- asserted again yet may still be in use: the static sum of floors stays reserved until their leases
-- are over.
local function room(s)
  local r = math.huge
  if s.cap ~= UNLIMITED then
    r = s.cap - s.total
    if not floor_class and c.h.fu > now then
      r = r - math.max(0, s.floor - s.floors)
    end
  end
  if floor_class then
    r = math.min(r, s.floor - s.floors)
  end
  return r
end

-- The room of the path (not below 0), and the scope that has the least.
local function tightest(path)
  local best, where = math.huge, 0
  for _, k in ipairs(path) do
    local r = room(scopes[k])
    if r < best then
      best, where = r, k
    end
  end
  return math.max(0, best), where
end

-- The entry holds n from now on, in every scope of its path.
local function hold(e, n)
  local idle = math.max(0, n - e.need)
  for _, k in ipairs(e.path) do
    charge(scopes[k], n - e.n, idle - e.idle, ends)
  end
  e.n, e.idle = n, idle
end

-- Drops the rows of this path whose lease is over. Not before nx: until then none can be. false if
-- something is damaged.
local function reclaim(path)
  for _, k in ipairs(path) do
    local s = scopes[k]
    if now >= s.nx then
      local rows = all_rows(s)
      if not rows then
        return false
      end
      local who, leases = {}, {}
      for other in pairs(rows) do
        if other ~= inc then
          who[#who + 1], leases[#leases + 1] = other, 'L|' .. other
        end
      end
      local raw = #who > 0 and redis.call('HMGET', K, unpack(leases)) or {}
      s.nx, s.dirty = ends, true
      for j, other in ipairs(who) do
        local lease = parse_lease(raw[j])
        if lease == nil then
          return false
        end
        if live(lease) then
          s.nx = math.min(s.nx, lease.e)
        else
          drop_row(s, other, rows[other])
        end
      end
    end
  end
  return true
end

-- Grows an entry as far as the path allows. false if something is damaged.
local function grow(e)
  local lack = math.max(0, e.need - e.n)
  local most, where = tightest(e.path)
  if lack > most and not learning then
    if not reclaim(e.path) then
      return false
    end
    most, where = tightest(e.path)
  end
  if learning then
    most = 0
  end
  if lack > most then
    hold(e, e.n + most)
    local s = scopes[where]
    if learning then
      e.code = 'LEARNING'
    elseif s.cap ~= UNLIMITED and s.cap > s.total then
      e.code, e.block = 'LEARNING', where -- held back for floors not heard of yet, or a floor beyond its limit
    else
      e.code, e.block = s.idle > 0 and 'SPARE' or 'FULL', where
    end
    return true
  end
  -- Spare beyond the need: half of what is left, so that no owner takes all (floors are shared out by
  -- configuration, so they take all they may); none while others wait.
  local base = e.n + lack
  local spare = math.min(e.want - base, floor_class and most - lack or math.floor((most - lack) / 2))
  for _, k in ipairs(e.path) do
    if scopes[k].pressed then
      spare = 0
    end
  end
  hold(e, base + math.max(0, spare))
  return true
end

-- First what is given back, so that a leaf that takes can use it in the same call.
for _, e in ipairs(entries) do
  hold(e, math.min(e.n, e.want))
end
for _, e in ipairs(entries) do
  if e.want > e.n and not grow(e) then
    return damaged('S or L below ' .. fields[5])
  end
end

-- Pressure: where somebody went short, and where the cap fell below what is held. Hints: new
-- pressure, and what came free where somebody waits.
local hints, press = {}, false
local function raise(k)
  local s, name = scopes[k], given[k].name
  if not s.pressed then
    hints[#hints + 1] = { 'p', name }
  end
  s.pressed, press, c.pressure[name] = true, true, now + press_ms
end
for _, e in ipairs(entries) do
  for _, k in ipairs(e.path) do
    local s = scopes[k]
    if e.n < e.old and s.pressed and not s.freed then
      s.freed = true
      hints[#hints + 1] = { 'f', given[k].name }
    end
  end
end
for _, e in ipairs(entries) do
  if e.code == 'FULL' or e.code == 'SPARE' then
    raise(e.block)
  end
end
for k, s in ipairs(scopes) do
  if s.cap ~= UNLIMITED and s.total > s.cap then
    raise(k)
  end
end

local out = { 'L|' .. inc, show_lease(ends, c.lease.fv, math.max(c.lease.mv, v)) }
local granted, shown = {}, {}
for i, e in ipairs(entries) do
  out[#out + 1], out[#out + 2] = fields[4 + count + i], show_entry(e.n, e.idle, v)
  granted[i] = { e.n, e.code, e.block }
end
for k, s in ipairs(scopes) do
  if s.dirty then
    out[#out + 1], out[#out + 2] = fields[4 + k], show_scope(s)
  end
  shown[k] = { s.cap, s.total, s.idle, s.pressed and 1 or 0 }
end
if press then
  out[#out + 1], out[#out + 2] = 'pr', show_pressure(c.pressure)
end
write(out, {})
for _, x in ipairs(hints) do
  hint(x[1], x[2])
end
return { 'OK', math.max(0, c.h.lu - now), granted, shown }
