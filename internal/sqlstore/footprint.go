package sqlstore

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
)

// A footprint is stored as the number of reads, and then all prefixes, the reads first, each after
// its length. All numbers are varints.

// EncodeFootprint returns nil for a footprint that declares nothing.
func EncodeFootprint(f batch.Footprint) []byte {
	if f.Empty() {
		return nil
	}
	size := binary.MaxVarintLen32
	for _, list := range [...][]string{f.Reads, f.Writes} {
		for _, p := range list {
			size += len(p) + 2
		}
	}
	out := binary.AppendUvarint(make([]byte, 0, size), uint64(len(f.Reads)))
	for _, list := range [...][]string{f.Reads, f.Writes} {
		for _, p := range list {
			out = append(binary.AppendUvarint(out, uint64(len(p))), p...)
		}
	}
	return out
}

var errFootprint = errors.New("broken footprint")

// DecodeFootprint reads the bytes of [EncodeFootprint]; nil is a footprint that declares
// nothing.
func DecodeFootprint(b []byte) (f batch.Footprint, err error) {
	if len(b) == 0 {
		return f, nil
	}
	text := string(b) // one copy, which all prefixes share
	reads, at := binary.Uvarint(b)
	if at <= 0 || reads > batch.MaxFootprint {
		return f, fmt.Errorf("%w: number of reads", errFootprint)
	}
	for i := uint64(0); at < len(b); i++ {
		n, w := binary.Uvarint(b[at:])
		if w <= 0 || n > uint64(len(b)-at-w) {
			return batch.Footprint{}, fmt.Errorf("%w: at byte %d of %d", errFootprint, at, len(b))
		}
		at += w
		p := text[at : at+int(n)]
		at += int(n)
		if i < reads {
			f.Reads = append(f.Reads, p)
		} else {
			f.Writes = append(f.Writes, p)
		}
	}
	if uint64(len(f.Reads)) < reads {
		return batch.Footprint{}, fmt.Errorf("%w: %d reads of %d", errFootprint, len(f.Reads), reads)
	}
	return f, nil
}
