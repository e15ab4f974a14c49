package sqlite

// changeGroup is rows that one statement changes alike: all its arguments are the same but the
// numbers.
type changeGroup[K comparable] struct {
	change K
	seqs   []int64
	places []int // of the rows in the call
}

// manyRows is how many rows one statement for all of them needs to be cheaper than a statement for
// each: SQLite first makes a table of the numbers.
const manyRows = 16

// changeGroups gathers rows by the change that they need, in the order of their first rows.
type changeGroups[K comparable] struct {
	index map[K]int
	list  []changeGroup[K]
}

func (g *changeGroups[K]) add(of K, seq int64, place int) {
	i, ok := g.index[of]
	if !ok {
		if g.index == nil {
			g.index = map[K]int{}
		}
		i = len(g.list)
		g.index[of] = i
		g.list = append(g.list, changeGroup[K]{change: of})
	}
	g.list[i].seqs, g.list[i].places = append(g.list[i].seqs, seq), append(g.list[i].places, place)
}
