package postgres

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
)

// Arrays are sent as PostgreSQL's text for them, which every driver passes on unchanged and
// every protocol takes; a statement names their type.

func intArray(n int, at func(i int) int64) string {
	b := append(make([]byte, 0, 2+n*8), '{')
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, at(i), 10)
	}
	return string(append(b, '}'))
}

func boolArray(n int, at func(i int) bool) string {
	b := append(make([]byte, 0, 2+n*2), '{')
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		if at(i) {
			b = append(b, 't')
		} else {
			b = append(b, 'f')
		}
	}
	return string(append(b, '}'))
}

func textArray(n int, at func(i int) string) string {
	return nullTextArray(n, func(i int) (string, bool) { return at(i), true })
}

// nullTextArray holds NULL where at says false.
func nullTextArray(n int, at func(i int) (string, bool)) string {
	size := len("{}")
	for i := range n {
		text, _ := at(i)
		size += len(text) + len("NULL,")
	}
	var b strings.Builder
	b.Grow(size) // enough, unless there is something to escape
	b.WriteByte('{')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		text, ok := at(i)
		if !ok {
			b.WriteString("NULL")
			continue
		}
		b.WriteByte('"')
		if strings.ContainsAny(text, `"\`) {
			text = arrayEscapes.Replace(text)
		}
		b.WriteString(text)
		b.WriteByte('"')
	}
	b.WriteByte('}')
	return b.String()
}

var arrayEscapes = strings.NewReplacer(`"`, `\"`, `\`, `\\`)

// hashArray is a text of the type uuid[].
func hashArray(n int, at func(i int) [16]byte) string {
	b := append(make([]byte, 0, 2+n*33), '{')
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		hash := at(i)
		b = hex.AppendEncode(b, hash[:])
	}
	return string(append(b, '}'))
}

// idHash is the key by which batches are looked up, as a uuid. A found batch is compared by
// its id.
func idHash(id batch.ID) string {
	hash := sqlstore.IDHash(id)
	return hex.EncodeToString(hash[:])
}

func idHashes(ids []batch.ID) string {
	return hashArray(len(ids), func(i int) [16]byte { return sqlstore.IDHash(ids[i]) })
}

func ints(list []int64) string { return intArray(len(list), func(i int) int64 { return list[i] }) }

func texts[T ~string](list []T) string {
	return textArray(len(list), func(i int) string { return string(list[i]) })
}
