-- LOOK: what the fleet holds, for status pages and gauges. Writes nothing; O(fields of the domain),
-- so at most once a second for each reader.
--
-- ARGV  1 "1"   2 "o0"   3 ""   4 stall ms
-- Reply {"OK", g, learning ms left, floor learning ms left, live incarnations, live floor incarnations,
--        {{scope, cap, total, idle, floors}, …}}   rows of dead incarnations are left out
--       {"NEWGEN"}   no memory, or not to be believed

if not well_formed or #ARGV ~= 4 then
  return fail('SGARG', 'look: malformed arguments')
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
if h == 'lost' then
  return { 'NEWGEN' }
end

local alive, ordinary, floors = {}, 0, 0
for field, value in pairs(raw) do
  local who = string.match(field, '^L|(%w+)$')
  if who and live(parse_lease(value)) then
    alive[who] = true
    if is_floor(who) then
      floors = floors + 1
    else
      ordinary = ordinary + 1
    end
  end
end
local shown = {}
for field, value in pairs(raw) do
  local name = string.match(field, '^S|(.+)$')
  local s = name and parse_scope(value)
  local rows = s and all_rows(s)
  if rows then
    for who, row in pairs(rows) do
      if not alive[who] then
        drop_row(s, who, row)
      end
    end
    shown[#shown + 1] = { name, s.cap, s.total, s.idle, s.floors }
  end
end
return { 'OK', h.g, math.max(0, h.lu - now), math.max(0, h.fu - now), ordinary, floors, shown }
