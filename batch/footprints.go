package batch

// Footprints is a growing set of footprints that tells of each new one whether it
// conflicts with any before it, in time that grows with the new one's size and not
// with the set's. The zero value is an empty set. It is not safe for concurrent use.
//
// It is a radix tree over all entries. A node knows who read and wrote exactly
// there, and who did so there or below. An entry conflicts with what stands at a
// node on its way, and with all that is below its end.
type Footprints struct {
	nodes []node // nodes[0] is the root: the prefix "", the whole state
	kids  [][16]int32
	last  owner // given to a footprint
}

// owner stands for whose an entry is: nobody's, one's (from 1), or several's.
type owner int32

const (
	nobody  owner = 0
	several owner = -1
)

// with returns the owner of what was o's and is now who's, too.
func (o owner) with(who owner) owner {
	if o == nobody || o == who {
		return who
	}
	return several
}

// other reports whether anybody but who owns it.
func (o owner) other(who owner) bool { return o != nobody && o != who }

// node is the end of an entry, or where entries part. Nodes and their tables lie
// in two slices and name each other by number, so that a tree of thousands is a
// handful of allocations.
type node struct {
	key     string // an entry that leads here or further
	end     int32  // key[:end] leads here
	table   int32  // 1 + the place in kids of the children by hex digit, 0 if there is none
	odd     int32  // the first of the children by any other byte, 0 if there is none
	nextOdd int32  // its sibling

	read, written   owner // exactly here
	reads, writings owner // here or below
}

// Add adds f and reports whether it conflicts with a footprint that was there before.
func (x *Footprints) Add(f Footprint) (conflicts bool) {
	x.last++
	return x.add(f, x.last)
}

// Reset empties the set and keeps its memory.
func (x *Footprints) Reset() {
	clear(x.nodes) // lets the entries go
	x.nodes, x.kids, x.last = x.nodes[:0], x.kids[:0], 0
}

// add adds f as who's and reports whether it conflicts with anybody else's. It
// must not be mixed with Add, which makes up owners of its own.
func (x *Footprints) add(f Footprint, who owner) (conflicts bool) {
	if len(x.nodes) == 0 {
		x.nodes = append(x.nodes, node{})
	}
	if f.Empty() { // writing everything is what conflicts with everything
		return x.insert("", true, who)
	}
	for _, p := range f.Writes {
		conflicts = x.insert(p, true, who) || conflicts
	}
	for _, p := range f.Reads {
		conflicts = x.insert(p, false, who) || conflicts
	}
	return conflicts
}

// insert adds one entry and reports whether it meets anybody else's.
func (x *Footprints) insert(p string, write bool, who owner) (meets bool) {
	at := int32(0)
	for {
		n := &x.nodes[at]
		meets = meets || n.written.other(who) || write && n.read.other(who)
		if n.written == several {
			return true // as does whatever comes here or below from now on
		}
		if int(n.end) == len(p) {
			break
		}
		n.note(write, who)
		c := p[n.end]
		next := x.child(n, c)
		if next == 0 {
			x.link(at, c, x.leaf(p))
			at = int32(len(x.nodes) - 1)
			break
		}
		// Its first byte is the same. Most ways part byte by byte, and then the key,
		// which lies somewhere else in memory, need not be looked at.
		k := &x.nodes[next]
		if end := common(p, k.key, int(n.end)+1, int(k.end)); end < int(k.end) {
			next = x.part(at, next, p, end)
		}
		at = next
	}
	n := &x.nodes[at]
	meets = meets || n.writings.other(who) || write && n.reads.other(who)
	n.note(write, who)
	if write {
		n.written = n.written.with(who)
	} else {
		n.read = n.read.with(who)
	}
	return meets
}

// note says that who reads or writes here or below.
func (n *node) note(write bool, who owner) {
	if write {
		n.writings = n.writings.with(who)
	} else {
		n.reads = n.reads.with(who)
	}
}

func (x *Footprints) leaf(p string) int32 {
	x.nodes = append(x.nodes, node{key: p, end: int32(len(p))})
	return int32(len(x.nodes) - 1)
}

// part puts a node between two, where p[:end] ends or leaves the way to the lower.
func (x *Footprints) part(upper, lower int32, p string, end int) int32 {
	k := x.nodes[lower]
	x.nodes = append(x.nodes, node{key: p, end: int32(end), reads: k.reads, writings: k.writings})
	mid := int32(len(x.nodes) - 1)
	x.nodes[mid].nextOdd, x.nodes[lower].nextOdd = k.nextOdd, 0 // mid takes the place of lower
	x.relink(upper, p[x.nodes[upper].end], lower, mid)
	x.link(mid, k.key[end], lower)
	return mid
}

// digit is the value of a hex digit, and 16 for any other byte. Addresses are hex
// throughout, so their children are found at once; and as their digits are random,
// nothing here branches on which one it is.
func digit(c byte) int {
	set := uint64(0x3ff) << '0'
	if c >= 64 {
		set = 0x3f << ('a' - 64)
	}
	if c >= 128 || set>>(c&63)&1 == 0 {
		return 16
	}
	return int(c&15 + c>>6*9)
}

// child returns the child of n by its first byte, 0 if there is none.
func (x *Footprints) child(n *node, c byte) int32 {
	if d := digit(c); d < 16 {
		if n.table == 0 {
			return 0
		}
		return x.kids[n.table-1][d]
	}
	for k := n.odd; k != 0; k = x.nodes[k].nextOdd {
		if x.nodes[k].key[n.end] == c {
			return k
		}
	}
	return 0
}

// link makes kid a child of n; n has none by that byte.
func (x *Footprints) link(n int32, c byte, kid int32) {
	parent := &x.nodes[n]
	d := digit(c)
	if d == 16 {
		x.nodes[kid].nextOdd, parent.odd = parent.odd, kid
		return
	}
	if parent.table == 0 {
		x.kids = append(x.kids, [16]int32{})
		parent.table = int32(len(x.kids))
	}
	x.kids[parent.table-1][d] = kid
}

// relink puts kid in the place of a child of n.
func (x *Footprints) relink(n int32, c byte, old, kid int32) {
	parent := &x.nodes[n]
	if d := digit(c); d < 16 {
		x.kids[parent.table-1][d] = kid
		return
	}
	for k := &parent.odd; ; k = &x.nodes[*k].nextOdd {
		if *k == old {
			*k = kid
			return
		}
	}
}

// common returns how far a and b are the same, up to end; they are up to from.
func common(a, b string, from, end int) int {
	for end = min(end, len(a)); from < end && a[from] == b[from]; {
		from++
	}
	return from
}
