package sqlite

// changeGroup are rows that one statement changes in the same way: all its arguments are equal,
// except the numbers.
type changeGroup[K comparable] struct {
	change K
	seqs   []int64
	places []int // the indexes of the rows in the call
}

// manyRows is the number of rows from which one statement for all of them is cheaper than a
// statement for each. SQLite first makes a table of the numbers.
const manyRows = 16

// changeGroups collects rows by their change, in the order in which the changes first occur.
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
