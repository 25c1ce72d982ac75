-- Streamgate quota, layout 1: what every script starts with. The adapter loads `common.lua`
-- followed by one of join, beat, set or look as ONE script. docs/quota-protocol.md has the argument
-- and reply layouts, the rules of the caller and the reasons; quota-model/ checks the rules.
--
-- One DOMAIN is one key, KEYS[1] = "<prefix>{<domain>}": a hash without TTL. Everything that must be
-- lost together or not at all lives in it, so an absent field in a present key means NEW, never LOST.
--
--   sg          layout number, "1". A hash without it is somebody else's and is never touched
--   h           "<g> <id> <fa> <lu> <fu> <lb> <seal>", times in ms of the server's TIME:
--                 g   generation: the founder's nonce; changes with every loss of memory
--                 id  replication id of the server process that founded the generation
--                 fa  founded at
--                 lu  learning until: no ordinary slot is granted that was not held before
--                 fu  the same for floors, whose leases are longer
--                 lb  last beat or join of anybody
--   pr          pressure: "<scope>=<until>;" for each scope somebody waits for
--   L|<inc>     one incarnation's lease: "<end> <fv> <mv> <seal>". fv: versions up to it are settled
--               and refused; mv: the highest version executed
--   E|<inc>|<leaf>   what the incarnation holds there: "<n> <idle> <v> <seal>"; idle of n are unused
--   S|<scope>   "<cap> <rev> <floor> <nx> <total> <idle> <floors> <seal>;<inc> <n> <idle>;<inc> …"
--                 cap, rev, floor  newest configuration seen
--                 nx               no row can be dead before this time
--                 total idle floors   sums over the rows (floors: n of floor incarnations)
--                 one row per incarnation: the sum of its entries below the scope
--
-- The SEAL of a field is a check number over its numbers: a field edited by hand does not carry the
-- right one and is damage, not a count. (It guards against slips, not against malice.)
--
-- A LEAF is named by all scopes it is charged to, joined by "|" ("t:acme|p:l20"), so the path of a
-- leaf cannot change. An incarnation id starts with "o" (ordinary slots) or "f" (floors).
--
-- Every script reads in one command, decides, and writes last; nothing is written on a refusal.
-- What a script did not need to look at it does not check; BEAT and JOIN look at everything.
-- Redis 6.2 or later, Valkey; one key, so Cluster may move it.

local K = KEYS[1]
local inc, known = ARGV[2], ARGV[3]
-- A time further ahead than this was not written by us, or the clock was set back: damage.
local FAR = 3600000
local UNLIMITED = -1

local function fail(code, text)
  return redis.error_reply(code .. ' ' .. text)
end

-- An integer from 0 to below 10^14 (printed exactly by Lua), else nil.
local function int(s)
  local x = tonumber(s)
  if x and x >= 0 and x < 1e14 and x % 1 == 0 then
    return x
  end
end

-- A number of slots: below 10^9, so that sums stay exact.
local function slots(s)
  local x = tonumber(s)
  if x and x >= 0 and x < 1e9 and x % 1 == 0 then
    return x
  end
end

-- A cap: slots, or "-1" for none.
local function limit(s)
  return s == '-1' and UNLIMITED or slots(s)
end

-- The check number of a field. Prime modulus and factors: any one changed number shows.
local function seal(a, b, c, d, e, f, g)
  return (1 + 3 * a + 5 * b + 7 * c + 11 * (d or 0) + 13 * (e or 0) + 17 * (f or 0) + 19 * (g or 0)) % 99991
end

local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local now = clock()
local stall = int(ARGV[4])
local well_formed = #KEYS == 1 and ARGV[1] == '1' and stall and known and string.find(inc, '^[of]%w+$')

-- The replication id of this server, or nil and an error reply. A serving master draws a new one
-- when its process starts and whenever it is promoted, and it is not part of the data: data whose
-- founder had another id may have lost its last writes. (run_id would add nothing, since a restarted
-- master never keeps its replication id; INFO replication costs 2 us, INFO server 3 more.)
local function server_id()
  local info = redis.call('INFO', 'replication')
  if not string.find(info, 'role:master', 1, true) then
    return nil, fail('READONLY', 'this server is a replica')
  end
  local _, at = string.find(info, 'master_replid:', 1, true)
  if not at then
    return nil, fail('SGIDENT', 'INFO replication shows no master_replid: this server cannot notice that it lost its memory')
  end
  return string.sub(info, at + 1, at + 40)
end

-- May the domain be believed? Returns its parsed header; or 'lost' and this server's id (absent, of
-- another process, marked as damaged, or without a beat for longer than `stall`); or nil and an
-- error reply.
local function memory(sg, raw)
  local id, err = server_id()
  if not id then
    return nil, err
  end
  if not sg then
    if redis.call('HLEN', K) > 0 then
      return nil, fail('SGTYPE', 'the key holds a hash that is not ours: choose another key prefix, or delete it')
    end
    return 'lost', id
  end
  if sg ~= '1' then
    return nil, fail('SGLAYOUT', 'the key holds another layout than 1: choose another key prefix')
  end
  local g, founder, fa, lu, fu, lb, mark =
    string.match(raw or '', '^(%w+) (%w+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  if founder ~= id then
    return 'lost', id
  end
  local h = { g = g, id = id, fa = tonumber(fa), lu = tonumber(lu), fu = tonumber(fu), lb = tonumber(lb) }
  if seal(h.fa, h.lu, h.fu, h.lb) ~= tonumber(mark) then
    return 'lost', id
  end
  -- Nobody beat for so long: leases may have lapsed while their holders could not know, or the clock
  -- jumped. Either way what is stored is no longer what is held.
  if math.abs(now - h.lb) > stall or h.lu > now + FAR or h.fu > now + FAR then
    return 'lost', id
  end
  return h
end

local function show_header(h)
  return table.concat({ h.g, h.id, h.fa, h.lu, h.fu, h.lb, seal(h.fa, h.lu, h.fu, h.lb) }, ' ')
end

-- A field that cannot have been written by us makes the whole memory doubtful: it is treated like a
-- loss (the holders assert again, nothing new is granted meanwhile), never as a count.
local function damaged(what)
  redis.call('HSET', K, 'h', 'damaged: ' .. what)
  return { 'NEWGEN' }
end

local function is_floor(who)
  return string.byte(who) == 102
end

-- L|<inc>: parsed, false if absent, nil if damaged.
local function parse_lease(raw)
  if not raw then
    return false
  end
  local e, fv, mv, mark = string.match(raw, '^(%d+) (%d+) (%d+) (%d+)$')
  if not e then
    return nil
  end
  e, fv, mv = tonumber(e), tonumber(fv), tonumber(mv)
  if seal(e, fv, mv) ~= tonumber(mark) or fv > mv or e > now + FAR then
    return nil
  end
  return { e = e, fv = fv, mv = mv }
end

local function show_lease(e, fv, mv)
  return e .. ' ' .. fv .. ' ' .. mv .. ' ' .. seal(e, fv, mv)
end

local function live(lease)
  return lease and lease.e > now
end

-- E|<inc>|<leaf>: n, idle, v; (0, 0, 0) if absent. nil if damaged; none is newer than mv.
local function parse_entry(raw, lease)
  if not raw then
    return 0, 0, 0
  end
  local n, idle, v, mark = string.match(raw, '^(%d+) (%d+) (%d+) (%d+)$')
  if not n then
    return nil
  end
  n, idle, v = tonumber(n), tonumber(idle), tonumber(v)
  if seal(n, idle, v) ~= tonumber(mark) or idle > n or v > lease.mv then
    return nil
  end
  return n, idle, v
end

local function show_entry(n, idle, v)
  return n .. ' ' .. idle .. ' ' .. v .. ' ' .. seal(n, idle, v)
end

-- S|<scope>: an absent scope is new. nil if damaged. Finds this incarnation's row without reading
-- the others, so the cost hardly grows with the fleet.
local function parse_scope(raw)
  if not raw then
    return { cap = UNLIMITED, rev = 0, floor = 0, nx = now + FAR, total = 0, idle = 0, floors = 0,
      t0 = 0, i0 = 0, f0 = 0, rows = '', n = 0, i = 0 }
  end
  local cap, rev, floor, nx, total, idle, floors, mark, rows =
    string.match(raw, '^(%-?%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)(.*)$')
  if not cap then
    return nil
  end
  cap, rev, floor, nx = tonumber(cap), tonumber(rev), tonumber(floor), tonumber(nx)
  total, idle, floors = tonumber(total), tonumber(idle), tonumber(floors)
  if seal(cap, rev, floor, nx, total, idle, floors) ~= tonumber(mark) or nx > now + FAR then
    return nil
  end
  local s = { cap = cap, rev = rev, floor = floor, nx = nx, total = total, idle = idle, floors = floors,
    t0 = total, i0 = idle, f0 = floors, rows = rows, n = 0, i = 0 }
  local _, at = string.find(rows, ';' .. inc .. ' ', 1, true)
  if at then
    local n, i = string.match(rows, '^(%d+) (%d+)', at + 1)
    s.n, s.i = slots(n), slots(i)
    if not (s.n and s.i) or s.i > s.n or s.n > total or s.i > idle then
      return nil
    end
  end
  return s
end

-- Changes this incarnation's row by (dn, di) and the sums with it. `e`: its lease end, a lower bound
-- for the time its row may be dropped.
local function charge(s, dn, di, e)
  if dn == 0 and di == 0 then
    return
  end
  s.n, s.i, s.total, s.idle, s.dirty = s.n + dn, s.i + di, s.total + dn, s.idle + di, true
  if is_floor(inc) then
    s.floors = s.floors + dn
  end
  s.nx = math.min(s.nx, e)
end

-- All rows of a scope as stored, who -> {n, idle}. nil if they are malformed or do not add up to the
-- sums stored with them (t0, i0, f0): somebody edited them.
local function all_rows(s)
  local out, seen, total, idle, floors = {}, 0, 0, 0, 0
  for who, n, i in string.gmatch(s.rows, ';(%w+) (%d+) (%d+)') do
    seen = seen + 3 + #who + #n + #i
    n, i = slots(n), slots(i)
    if not (n and i) or i > n or out[who] then
      return nil
    end
    out[who] = { n, i }
    total, idle = total + n, idle + i
    if is_floor(who) then
      floors = floors + n
    end
  end
  if seen ~= #s.rows or total ~= s.t0 or idle ~= s.i0 or floors ~= s.f0 then
    return nil
  end
  return out
end

-- Drops another incarnation's row.
local function drop_row(s, who, row)
  s.total, s.idle, s.dirty = s.total - row[1], s.idle - row[2], true
  if is_floor(who) then
    s.floors = s.floors - row[1]
  end
  local from, at = string.find(s.rows, ';' .. who .. ' ', 1, true)
  local stop = string.find(s.rows, ';', at, true) or #s.rows + 1
  s.rows = string.sub(s.rows, 1, from - 1) .. string.sub(s.rows, stop)
end

local function show_scope(s)
  local from, at = string.find(s.rows, ';' .. inc .. ' ', 1, true)
  local head, tail = s.rows, ''
  if from then
    local stop = string.find(s.rows, ';', at, true) or #s.rows + 1
    head, tail = string.sub(s.rows, 1, from - 1), string.sub(s.rows, stop)
  end
  local own = s.n > 0 and (';' .. inc .. ' ' .. s.n .. ' ' .. s.i) or ''
  return s.cap .. ' ' .. s.rev .. ' ' .. s.floor .. ' ' .. s.nx .. ' ' .. s.total .. ' ' .. s.idle .. ' ' .. s.floors
    .. ' ' .. seal(s.cap, s.rev, s.floor, s.nx, s.total, s.idle, s.floors) .. head .. own .. tail
end

-- The scopes a leaf is charged to, or nil if the name is not one.
local function split(leaf)
  if not leaf or #leaf > 512 or string.find(leaf, '[^%w_%.:@/%%|%-]') then
    return nil
  end
  local out, seen = {}, 0
  for scope in string.gmatch(leaf, '[^|]+') do
    out[#out + 1] = scope
    seen = seen + #scope + 1
  end
  if seen ~= #leaf + 1 then
    return nil
  end
  for i = 2, #out do
    for j = 1, i - 1 do
      if out[i] == out[j] then
        return nil
      end
    end
  end
  return out
end

-- pr: scope -> until, without what is over. nil if damaged.
local function parse_pressure(raw)
  local out, used = {}, 0
  if not raw then
    return out
  end
  for scope, till in string.gmatch(raw, '([^=;]+)=(%d+);') do
    used = used + 2 + #scope + #till
    till = int(till)
    if not till then
      return nil
    end
    if till > now and till <= now + FAR then
      out[scope] = till
    end
  end
  if used ~= #raw then
    return nil
  end
  return out
end

local function show_pressure(pr)
  local out = {}
  for scope, till in pairs(pr) do
    out[#out + 1] = scope .. '=' .. till .. ';'
  end
  return table.concat(out)
end

-- A hint on channel KEYS[1]: "p <scope>" somebody began to wait, "f <scope>" something came free
-- where somebody waits. Only hints: a server that forbids PUBLISH costs latency, nothing else.
local function hint(kind, scope)
  redis.pcall('PUBLISH', K, kind .. ' ' .. scope)
end

-- Writes {field, value, …} and removes fields. HSET first: it alone can be refused for memory, and
-- then nothing was written; after one write the server refuses no further one of this script.
local function write(pairs_, gone)
  for i = 1, #pairs_, 1000 do
    redis.call('HSET', K, unpack(pairs_, i, math.min(i + 999, #pairs_)))
  end
  for i = 1, #gone, 1000 do
    redis.call('HDEL', K, unpack(gone, i, math.min(i + 999, #gone)))
  end
end

-- What BEAT and SET begin with. `fields` starts with sg, h, pr and L|<inc>; all are read in one
-- command. Returns {h, pressure, lease, got = all values}, or nil and the reply that ends the script.
local function open(fields)
  local got = redis.pcall('HMGET', K, unpack(fields))
  if got.err then
    return nil, fail('SGTYPE', 'the key does not hold a quota domain: ' .. got.err)
  end
  local h, other = memory(got[1], got[2])
  if not h then
    return nil, other
  end
  if h == 'lost' or known ~= h.g then
    return nil, { 'NEWGEN' }
  end
  local pressure, lease = parse_pressure(got[3]), parse_lease(got[4])
  if not pressure or lease == nil then
    return nil, damaged('pr or L|' .. inc)
  end
  if not live(lease) then
    return nil, { 'NOLEASE' }
  end
  return { h = h, pressure = pressure, lease = lease, got = got }
end
