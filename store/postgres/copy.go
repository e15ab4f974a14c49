package postgres

import (
	"context"
	"encoding/binary"
	"io"

	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres/internal/conns"
)

// minCopyRows is the least number of new batches for which an Add uses COPY. COPY costs the server
// less for each row than INSERT, and two round trips more.
const minCopyRows = 100

const (
	copyBatchesColumns = 13 // the number of columns in colsInsert
	copyQueuedColumns  = 5
)

// copier returns the connection if it can copy rows new batches, and nil otherwise.
func (t *session) copier(rows int) conns.Copier {
	if rows < minCopyRows {
		return nil
	}
	c, _ := t.tx.(conns.Copier)
	return c
}

// copyNew does by COPY what sqlInsertNew does. The rows go into each index in the same order as by
// INSERT, so that two calls with the same batches wait for each other in one direction only.
func (t *session) copyNew(ctx context.Context, c conns.Copier, in []*addition) error {
	text, columns := copyBatches, uint16(copyBatchesColumns)
	if haveTraceOrTags(in) {
		text, columns = copyBatchesMore, copyBatchesColumns+2
	}
	err := c.Copy(ctx, t.store.sql(text), &copyReader{rowCount: len(in), appendRow: func(b []byte, i int) []byte {
		return appendBatch(b, in[i], columns)
	}})
	if err != nil {
		return err
	}
	version := store.NewRow().Version
	return c.Copy(ctx, t.store.sql(copyQueued), &copyReader{rowCount: len(in), appendRow: func(b []byte, i int) []byte {
		return appendQueued(b, in[i], version)
	}})
}

// copyReader makes rows in the binary format of COPY (PostgreSQL's documentation, COPY).
type copyReader struct {
	rowCount  int                          // the number of rows
	appendRow func(b []byte, i int) []byte // appends row i
	nextRow   int                          // the index of the next row
	unread    []byte                       // the part of buf that was not read yet
	buf       []byte                       // the buffer of unread
	nextPart  uint8                        // the part that comes next: the head, the rows, or nothing
}

// copyHead has the signature of the format, no flags and no extension. copyEnd is a row of -1
// columns, which ends the data.
const (
	copyHead = "PGCOPY\n\xff\r\n\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00"
	copyEnd  = "\xff\xff"
)

// Read fills p as far as it can, so that messages to the server are large.
func (c *copyReader) Read(p []byte) (n int, err error) {
	for {
		done := copy(p[n:], c.unread)
		n, c.unread = n+done, c.unread[done:]
		if n == len(p) {
			return n, nil
		}
		switch {
		case c.nextPart == 0:
			c.buf, c.nextPart = append(c.buf[:0], copyHead...), 1
		case c.nextPart == 1 && c.nextRow < c.rowCount:
			c.buf = c.appendRow(c.buf[:0], c.nextRow)
			c.nextRow++
		case c.nextPart == 1:
			c.buf, c.nextPart = append(c.buf[:0], copyEnd...), 2
		case n > 0:
			return n, nil
		default:
			return 0, io.EOF
		}
		c.unread = c.buf
	}
}

// appendBatch appends a row of copyBatches, or, with two more columns, of copyBatchesMore.
func appendBatch(b []byte, a *addition, columns uint16) []byte {
	b = binary.BigEndian.AppendUint16(b, columns)
	b = appendInt(b, a.Seq)
	b = appendValue(b, a.IDHash[:])
	b = appendValue(b, a.ID)
	b = appendValue(b, a.Service)
	b = appendInt(b, a.At)
	b = appendValue(b, a.DataChangeID)
	b = appendValue(b, a.SignerPublicKey)
	b = appendBool(b, a.Trace)
	b = appendInt(b, int64(a.Budget.Attempts))
	b = appendBool(b, a.Budget.EveryTry)
	b = appendValue(b, a.PayloadHash[:])
	b = appendOrNull(b, a.FootprintCol)
	b = appendValue(b, a.Payload)
	if columns > copyBatchesColumns {
		b = appendOrNull(appendOrNull(b, a.TraceParent), a.TagsCol)
	}
	return b
}

// appendQueued appends a row of copyQueued.
func appendQueued(b []byte, a *addition, version int64) []byte {
	b = binary.BigEndian.AppendUint16(b, copyQueuedColumns)
	b = appendInt(b, a.Seq)
	b = appendValue(b, a.Service)
	b = appendInt(b, a.At)
	b = appendInt(b, version)
	return appendBool(b, false) // requeued
}

func appendInt(b []byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(b, 8), uint64(n))
}

func appendBool(b []byte, yes bool) []byte {
	if yes {
		return append(b, 0, 0, 0, 1, 1)
	}
	return append(b, 0, 0, 0, 1, 0)
}

func appendValue[T ~string | ~[]byte](b []byte, value T) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(value))), value...)
}

// appendOrNull appends value, or NULL if value is empty.
func appendOrNull[T ~string | ~[]byte](b []byte, value T) []byte {
	if len(value) == 0 {
		return append(b, 0xff, 0xff, 0xff, 0xff)
	}
	return appendValue(b, value)
}
