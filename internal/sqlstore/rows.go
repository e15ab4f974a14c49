package sqlstore

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/jmoiron/sqlx/reflectx"
)

// columnCache knows the fields into which the columns of a statement go: a column goes into the
// field whose tag db is the column's name. The cache examines each statement once, at its first
// row. The methods may be called concurrently.
type columnCache struct {
	mapper       *reflectx.Mapper
	mu           sync.RWMutex
	fieldIndexes map[rowShape][][]int
}

// rowShape is a statement, and the type of the struct that takes its rows.
type rowShape struct {
	dest      reflect.Type
	statement string
}

func newColumns() *columnCache {
	return &columnCache{mapper: reflectx.NewMapper("db"), fieldIndexes: map[rowShape][][]int{}}
}

// destinations returns pointers to where the columns of a row go in the value that one points to:
// its fields, or the value itself if it is no struct.
func (c *columnCache) destinations(statement string, rows Rows, one any) ([]any, error) {
	v := reflect.ValueOf(one).Elem()
	if v.Kind() != reflect.Struct {
		return []any{one}, nil
	}
	fields, err := c.fields(rowShape{v.Type(), statement}, rows)
	if err != nil {
		return nil, err
	}
	dest := make([]any, len(fields))
	for i, f := range fields {
		dest[i] = v.FieldByIndex(f).Addr().Interface()
	}
	return dest, nil
}

func (c *columnCache) fields(r rowShape, rows Rows) ([][]int, error) {
	c.mu.RLock()
	fields, known := c.fieldIndexes[r]
	c.mu.RUnlock()
	if known {
		return fields, nil
	}
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for i, name := range names { // some pragmas of SQLite put the table before the column's name
		names[i] = name[strings.LastIndexByte(name, '.')+1:]
	}
	fields = make([][]int, len(names))
	err = c.mapper.TraversalsByNameFunc(r.dest, names, func(i int, field []int) error {
		if field == nil || slices.Contains(names[:i], names[i]) {
			return fmt.Errorf("column %d, %q, has no field of its own in %s: %s", i+1, names[i], r.dest, r.statement)
		}
		fields[i] = field
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fieldIndexes[r] = fields
	return fields, nil
}
