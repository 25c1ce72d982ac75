-- JOIN: the first command of an incarnation, and its answer to NEWGEN. Registers the incarnation with
-- everything it holds, as one absolute table; founds the generation if there is no memory.
--
-- ARGV  1 "1"   2 inc   3 known generation ("" = none)   4 stall ms   5 lease ms   6 floor lease ms
--       7 nonce (generation to found)   8 v   9 force "0"|"1"   10 count, then count x (leaf, n, idle)
-- Reply {"OK", g, learning ms left, floor learning ms left, now}   now: ms of the server's TIME
--       {"STALE"}    a newer command of this incarnation was executed: send again with a higher v
--       {"NOLEASE"}  the claims cannot be true (the lease lapsed): fence
--
-- Claims are believed while learning (nobody else can have been granted these slots since), and with
-- force (they are requests that run, unfenced; the total may then exceed the cap and blocks growth).
-- Reads the whole domain: O(fields). It is also the collector of what dead incarnations left.

local lease_ms, floor_ms = int(ARGV[5]), int(ARGV[6])
local nonce, v, force, count = ARGV[7], int(ARGV[8]), ARGV[9] == '1', int(ARGV[10])
if not (well_formed and lease_ms and floor_ms and v and count) or not string.find(nonce or '', '^%w+$')
  or #ARGV ~= 10 + 3 * count then
  return fail('SGARG', 'join: malformed arguments')
end

-- Claims: leaf -> {n, idle, path}.
local claims, sum = {}, 0
for i = 1, count do
  local at = 8 + 3 * i
  local leaf, n, idle = ARGV[at], slots(ARGV[at + 1]), slots(ARGV[at + 2])
  local path = split(leaf)
  if not (path and n and idle) or idle > n or claims[leaf] then
    return fail('SGARG', 'join: bad claim ' .. i)
  end
  claims[leaf] = { n = n, idle = idle, path = path }
  sum = sum + n
end

local flat = redis.pcall('HGETALL', K)
if flat.err then
  return fail('SGTYPE', 'the key does not hold a quota domain: ' .. flat.err)
end
local raw = {}
for i = 1, #flat, 2 do
  raw[flat[i]] = flat[i + 1]
end
local h, other = memory(raw.sg, raw.h)
if not h then
  return other
end

-- Everything in the domain: leases, scopes with their rows, everybody's entry fields, own entries.
-- nil if any field is damaged.
local function parse_all()
  local d = { lease = {}, scope = {}, rows = {}, fields = {}, own = {} }
  for field, value in pairs(raw) do
    local kind, rest = string.sub(field, 1, 2), string.sub(field, 3)
    if kind == 'L|' then
      d.lease[rest] = parse_lease(value)
      if not d.lease[rest] then
        return nil
      end
    elseif kind == 'S|' then
      d.scope[rest] = parse_scope(value)
      d.rows[rest] = d.scope[rest] and all_rows(d.scope[rest])
      if not d.rows[rest] then
        return nil
      end
    end
  end
  for field, value in pairs(raw) do
    local who, leaf = string.match(field, '^E|(%w+)|(.+)$')
    if who then
      local n = parse_entry(value, d.lease[who] or { fv = 0, mv = math.huge })
      if not n or not split(leaf) then
        return nil
      end
      d.fields[who] = d.fields[who] or {}
      d.fields[who][field] = true
      if who == inc then
        d.own[leaf] = n
      end
    end
  end
  return d
end

local d = h ~= 'lost' and parse_all()
if not d then
  -- The only place that founds, and so the only place that starts learning.
  h = { g = nonce, id = h == 'lost' and other or h.id, fa = now, lu = now + lease_ms, fu = now + floor_ms }
  d = { lease = {}, scope = {}, rows = {}, fields = {}, own = {} }
  redis.call('DEL', K)
end
local learning = (is_floor(inc) and h.fu or h.lu) > now
local lease = d.lease[inc]

-- May the claims be believed? nil, or the refusal.
local function refusal()
  if not live(lease) then
    if sum > 0 and not force and not (learning and known ~= h.g) then
      return { 'NOLEASE' }
    end
    return nil
  end
  if v <= lease.mv then
    return { 'STALE' }
  end
  for leaf, claim in pairs(claims) do
    if claim.n > (d.own[leaf] or 0) and not (learning or force) then
      return { 'NOLEASE' }
    end
  end
end

local no = refusal()
if no and h.lb then
  return no
end

-- Collect the dead: whoever has no live lease, by whatever field is left of it.
local gone, dead = {}, {}
local function bury(who)
  dead[who] = dead[who] or (who ~= inc and not live(d.lease[who])) or nil
end
for who in pairs(d.lease) do
  bury(who)
end
for who in pairs(d.fields) do
  bury(who)
end
for _, rows in pairs(d.rows) do
  for who in pairs(rows) do
    bury(who)
  end
end
for who in pairs(dead) do
  if d.lease[who] then
    gone['L|' .. who] = true
  end
  for field in pairs(d.fields[who] or {}) do
    gone[field] = true
  end
  for scope, rows in pairs(d.rows) do
    if rows[who] then
      drop_row(d.scope[scope], who, rows[who])
    end
  end
end

-- Own entries and rows are written anew. fv = v: an older command of this incarnation that is still
-- under way is refused for every leaf.
local ends = now + (is_floor(inc) and floor_ms or lease_ms)
if live(lease) then
  ends = math.max(ends, lease.e) -- never shorter than before: nx relies on it
end
local out = { 'L|' .. inc, show_lease(ends, v, v) }
local sums = {}
for field in pairs(d.fields[inc] or {}) do
  gone[field] = true
end
for leaf, claim in pairs(claims) do
  local field = 'E|' .. inc .. '|' .. leaf
  gone[field] = nil
  out[#out + 1], out[#out + 2] = field, show_entry(claim.n, claim.idle, v)
  for _, scope in ipairs(claim.path) do
    d.scope[scope] = d.scope[scope] or parse_scope(false)
    local row = sums[scope] or { 0, 0 }
    row[1], row[2], sums[scope] = row[1] + claim.n, row[2] + claim.idle, row
  end
end
for scope, s in pairs(d.scope) do
  local row = sums[scope] or { 0, 0 }
  charge(s, row[1] - s.n, row[2] - s.i, ends)
  if s.dirty then
    out[#out + 1], out[#out + 2] = 'S|' .. scope, show_scope(s)
  end
end

-- Replicas with a longer lease than the founder's lengthen the learning to theirs.
h.lu, h.fu, h.lb = math.max(h.lu, h.fa + lease_ms), math.max(h.fu, h.fa + floor_ms), now
out[#out + 1], out[#out + 2] = 'h', show_header(h)
out[#out + 1], out[#out + 2] = 'sg', '1'
local fields = {}
for field in pairs(gone) do
  fields[#fields + 1] = field
end
write(out, fields)
return { 'OK', h.g, math.max(0, h.lu - now), math.max(0, h.fu - now), now }
