package sqlite

// group is rows that one statement changes alike: all its arguments are the same but the numbers.
type group[K comparable] struct {
	of     K
	seqs   []int64
	places []int // of the rows in the call
}

// manyRows is how many rows one statement for all of them needs to be cheaper than a statement for
// each: SQLite first makes a table of the numbers.
const manyRows = 16

// groups gathers rows by the change that they need, in the order of their first rows.
type groups[K comparable] struct {
	at   map[K]int
	list []group[K]
}

func (g *groups[K]) add(of K, seq int64, place int) {
	i, ok := g.at[of]
	if !ok {
		if g.at == nil {
			g.at = map[K]int{}
		}
		i = len(g.list)
		g.at[of] = i
		g.list = append(g.list, group[K]{of: of})
	}
	g.list[i].seqs, g.list[i].places = append(g.list[i].seqs, seq), append(g.list[i].places, place)
}
