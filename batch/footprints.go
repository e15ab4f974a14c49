package batch

import "slices"

// Footprints is a growing set of footprints. Add reports whether a new footprint conflicts
// with an earlier one, in time that grows with the new footprint's size and not with the
// set's. The zero value is an empty set. It is not safe for concurrent use.
//
// The set is a radix tree over all entries. A node knows who read and wrote exactly there, and
// who did so there or below. An entry conflicts with the entries at the nodes on its way, and
// with all entries below its end.
type Footprints struct {
	nodes     []node // nodes[0] is the root: the prefix "", the whole state
	leaves    []leaf
	lastOwner owner // the newest owner given to a footprint
}

// owner is the owner of an entry: none, one footprint (from 1), or several.
type owner int32

const (
	ownerNobody  owner = 0
	ownerSeveral owner = -1
)

// joinOwner returns the owner of an entry that belongs to o and also to who.
func (o owner) joinOwner(who owner) owner {
	if o == ownerNobody || o == who {
		return who
	}
	return ownerSeveral
}

// includesOther reports whether o includes an owner other than who.
func (o owner) includesOther(who owner) bool { return o != ownerNobody && o != who }

// node is a place where entries part, or where an entry ends that others continue. Nodes and
// leaves are in two slices and refer to each other by index. So a tree of thousands of nodes needs
// few allocations, and a step down the tree reads one place in memory.
type node struct {
	children      [16]link // children by the next hex digit
	firstOddChild link     // the first child by any other byte
	nextSibling   link     // the next child of the same parent by any other byte
	end           int32    // key[:end] is the node's prefix
	key           string   // an entry that begins with the node's prefix

	readHere, writtenHere   owner // owners of the entries that end exactly here
	readBelow, writtenBelow owner // owners of the entries that end here or below
}

// leaf is the end of an entry that no other entry continues. Most entries end in leaves.
type leaf struct {
	key               string
	nextSibling       link
	readBy, writtenBy owner
}

// link refers to nodes[link] if it is positive, to leaves[^link] if it is negative, and to
// nothing if it is 0.
type link int32

// Add adds f and reports whether it conflicts with an earlier footprint of the set.
func (x *Footprints) Add(f Footprint) (conflicts bool) {
	x.lastOwner++
	return x.add(f, x.lastOwner)
}

// maxKeptEntries is the largest number of entries for which an empty set keeps memory: about 8 MB.
const maxKeptEntries = 1 << 16

// Reset empties the set, and keeps its memory unless that is out of proportion.
func (x *Footprints) Reset() {
	if cap(x.leaves) > maxKeptEntries || cap(x.nodes) > maxKeptEntries {
		*x = Footprints{}
	}
	clear(x.nodes) // lets the entries be collected
	clear(x.leaves)
	x.nodes, x.leaves, x.lastOwner = x.nodes[:0], x.leaves[:0], 0
}

// add adds f for the owner who, and reports whether f conflicts with another owner's footprint. A
// set that uses add must not use Add, which numbers owners itself.
func (x *Footprints) add(f Footprint, who owner) (conflicts bool) {
	if len(x.nodes) == 0 {
		x.nodes = append(x.nodes, node{})
	}
	if f.Empty() { // an empty footprint counts as writing everything
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

// insert adds one entry and reports whether it meets another owner's entry.
func (x *Footprints) insert(p string, write bool, who owner) (meets bool) {
	// At most one node and one leaf are added, so the pointers below stay valid.
	x.nodes, x.leaves = slices.Grow(x.nodes, 1), slices.Grow(x.leaves, 1)
	n := &x.nodes[0]
	for {
		meets = meets || n.writtenHere.includesOther(who) || write && n.readHere.includesOther(who)
		if n.writtenHere == ownerSeveral {
			return true // every later entry that ends here or below meets it, too
		}
		if int(n.end) == len(p) {
			break
		}
		n.note(write, who)
		// The first byte is the same. Most entries part byte by byte, and then the key, which is
		// elsewhere in memory, need not be read.
		switch at := x.childPlace(n, p[n.end]); {
		case *at == 0:
			l := leaf{key: p}
			l.set(write, who)
			x.leaves = append(x.leaves, l)
			*at = ^link(len(x.leaves) - 1)
			return meets
		case *at < 0:
			l := &x.leaves[^*at]
			end := commonLen(p, l.key, int(n.end)+1, len(l.key))
			if end == len(p) && end == len(l.key) {
				meets = meets || l.writtenBy.includesOther(who) || write && l.readBy.includesOther(who)
				l.set(write, who)
				return meets
			}
			n = x.partLeaf(at, p, end)
		default:
			k := &x.nodes[*at]
			if end := commonLen(p, k.key, int(n.end)+1, int(k.end)); end < int(k.end) {
				k = x.partNode(at, p, end)
			}
			n = k
		}
	}
	meets = meets || n.writtenBelow.includesOther(who) || write && n.readBelow.includesOther(who)
	n.note(write, who)
	if write {
		n.writtenHere = n.writtenHere.joinOwner(who)
	} else {
		n.readHere = n.readHere.joinOwner(who)
	}
	return meets
}

// note records that the owner who reads or writes here or below.
func (n *node) note(write bool, who owner) {
	if write {
		n.writtenBelow = n.writtenBelow.joinOwner(who)
	} else {
		n.readBelow = n.readBelow.joinOwner(who)
	}
}

func (l *leaf) set(write bool, who owner) {
	if write {
		l.writtenBy = l.writtenBy.joinOwner(who)
	} else {
		l.readBy = l.readBy.joinOwner(who)
	}
}

// partNode inserts a node above a node, where p[:end] ends or differs.
func (x *Footprints) partNode(at *link, p string, end int) *node {
	k := &x.nodes[*at]
	x.nodes = append(x.nodes, node{key: p, end: int32(end), nextSibling: k.nextSibling, readBelow: k.readBelow, writtenBelow: k.writtenBelow})
	mid := &x.nodes[len(x.nodes)-1]
	k.nextSibling = 0
	*x.childPlace(mid, k.key[end]) = *at
	*at = link(len(x.nodes) - 1)
	return mid
}

// partLeaf inserts a node above a leaf. A leaf that ends there becomes the node.
func (x *Footprints) partLeaf(at *link, p string, end int) *node {
	l := &x.leaves[^*at]
	x.nodes = append(x.nodes, node{key: p, end: int32(end), nextSibling: l.nextSibling, readBelow: l.readBy, writtenBelow: l.writtenBy})
	mid := &x.nodes[len(x.nodes)-1]
	if l.nextSibling = 0; end == len(l.key) {
		mid.readHere, mid.writtenHere = l.readBy, l.writtenBy
	} else {
		*x.childPlace(mid, l.key[end]) = *at
	}
	*at = link(len(x.nodes) - 1)
	return mid
}

// hexDigit returns the value of a hex digit, and 16 for any other byte. Addresses have only hex
// digits, so their children are found at once. The digits are random, so this code does not branch
// on the digit.
func hexDigit(c byte) int {
	set := uint64(0x3ff) << '0'
	if c >= 64 {
		set = 0x3f << ('a' - 64)
	}
	if c >= 128 || set>>(c&63)&1 == 0 {
		return 16
	}
	return int(c&15 + c>>6*9)
}

// childPlace returns the place of n's child for the byte c, or the place for a new one.
func (x *Footprints) childPlace(n *node, c byte) *link {
	if d := hexDigit(c); d < 16 {
		return &n.children[d]
	}
	place := &n.firstOddChild
	for *place != 0 {
		key, next := x.oddKey(*place)
		if key[n.end] == c {
			break
		}
		place = next
	}
	return place
}

// oddKey returns the key of a child, and the place of its sibling.
func (x *Footprints) oddKey(l link) (key string, next *link) {
	if l < 0 {
		return x.leaves[^l].key, &x.leaves[^l].nextSibling
	}
	return x.nodes[l].key, &x.nodes[l].nextSibling
}

// commonLen returns the length of the common prefix of a and b, at most end. They are known to be
// equal up to from.
func commonLen(a, b string, from, end int) int {
	for end = min(end, len(a)); from < end && a[from] == b[from]; {
		from++
	}
	return from
}
