# vars.capnp of a profile: every variable with its bytes on every tile. Written by
# src/report/vars.c, which lays the structs out by hand: a change here is a change there.

@0xd2a1f0c96b3e4785;

struct LoweredVariables {
  format @0 :UInt32;               # 1
  numIpus @1 :UInt32;              # of a replica
  tilesPerIpu @2 :UInt32;
  distributions @3 :List(Distribution);
  variables @4 :List(Variable);    # by id, which is the index
}

# How bytes lie on tiles; variables that lie alike share one.
struct Distribution {
  totalBytes @0 :UInt64;
  runs @1 :List(Run);
}

struct Run {
  firstTile @0 :UInt32;            # ipu * tilesPerIpu + tile
  numTiles @1 :UInt32;
  bytes @2 :UInt64;                # on each of them, a multiple of 4
}

struct Variable {
  debugId @0 :UInt64;              # in debug.cbor; 0: none
  distribution @1 :UInt32;
  firstStep @2 :UInt32;            # it holds memory from this program on
  endStep @3 :UInt32;              # up to before this one; both 0 when it is always live
  category @4 :UInt16;             # var_categories of profile.pop
  alwaysLive @5 :Bool;
  name @6 :Text;
}
