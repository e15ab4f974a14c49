package evmtx

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/dltbatch/dltbatch/batch"
)

// ErrBlobs says that the blobs sent with a transaction of type 3 are not those that its hashes
// name.
var ErrBlobs = errors.New("not the blobs of the transaction")

// Sizes of blobs in bytes, and their numbers (EIP-4844 and EIP-7594).
const (
	BlobSize = 131072
	// MaxBlobs is the most blobs that a transaction may have.
	MaxBlobs   = 6
	pointBytes = 48 // bytes of a commitment, and of a proof
	// proofsPerBlob is how many proofs a blob has in a sidecar of version 1.
	proofsPerBlob = 128
	// blobVersion is the first byte of a versioned hash.
	blobVersion = 1
)

// Sidecar is the data that is sent with a transaction of type 3. It is in no block, and the
// transaction's hash does not cover it.
type Sidecar struct {
	// Version is 0 with one proof for each blob (EIP-4844), and 1 with 128 proofs for each
	// (EIP-7594).
	Version                    uint64
	Blobs, Commitments, Proofs [][]byte
}

// decode reads a sidecar. Its parts share the memory of the reader's bytes.
func (s *Sidecar) decode(r *rlpReader) {
	if list, _, _, err := splitFirstItem(r.rest); err == nil && !list {
		if s.Version = r.uint("blobs.version"); r.err == nil && s.Version != 1 {
			r.refuse("blobs.version", strconv.FormatUint(s.Version, 10), "1 (EIP-7594), or none (EIP-4844)")
		}
	}
	s.Blobs = r.stringList("blobs", BlobSize, MaxBlobs)
	s.Commitments = r.stringList("commitments", pointBytes, MaxBlobs)
	s.Proofs = r.stringList("proofs", pointBytes, MaxBlobs*proofsPerBlob)
}

// stringList reads a list of at most most strings of size bytes each.
func (r *rlpReader) stringList(field string, size, most int) (out [][]byte) {
	r.list(field, func(part *rlpReader, i int) {
		one := part.bytes(field)
		switch {
		case part.err != nil:
		case i >= most:
			part.refuse(field, fmt.Sprintf("more than %d", most), fmt.Sprintf("at most %d, those of %d blobs (EIP-7594)", most, MaxBlobs))
		case len(one) != size:
			part.refuseLength(field+"["+strconv.Itoa(i)+"]", one, size)
		}
		out = append(out, one)
	})
	return out
}

// checkHashes refuses a sidecar that does not belong to these hashes. Only a node tests whether
// the proofs are true.
func (s *Sidecar) checkHashes(hashes []Hash) error {
	proofs := len(s.Blobs)
	if s.Version == 1 {
		proofs *= proofsPerBlob
	}
	for _, c := range [...]struct {
		field     string
		has, want int
	}{{"blobs", len(s.Blobs), len(hashes)}, {"commitments", len(s.Commitments), len(hashes)}, {"proofs", len(s.Proofs), proofs}} {
		if c.has != c.want {
			return &batch.InputError{Field: c.field, Value: strconv.Itoa(c.has), Want: fmt.Sprintf("%d: the transaction has %d hashes of blobs, and the sidecar is of version %d", c.want, len(hashes), s.Version), Err: ErrBlobs}
		}
	}
	for i, c := range s.Commitments {
		want := Hash(sha256.Sum256(c))
		if want[0] = blobVersion; hashes[i] != want {
			return &batch.InputError{Field: "blob_versioned_hashes[" + strconv.Itoa(i) + "]", Value: hashes[i].String(), Want: want.String() + ", the hash of commitments[" + strconv.Itoa(i) + "]", Err: ErrBlobs}
		}
	}
	return nil
}

// EncodeToSend returns the bytes that nodes accept: those of [Tx.Encode], with the sidecar if
// there is one.
func (tx *Tx) EncodeToSend() []byte {
	s := tx.Sidecar
	if s == nil {
		return tx.Encode()
	}
	items := tx.Encode()[1:]
	if s.Version > 0 {
		items = appendUint(items, s.Version)
	}
	for _, part := range [...][][]byte{s.Blobs, s.Commitments, s.Proofs} {
		var list []byte
		for _, one := range part {
			list = appendBytes(list, one)
		}
		items = appendList(items, list)
	}
	return appendList([]byte{tx.Type}, items)
}

// ZeroBlobs returns the sidecar of n blobs of zeros, and their hashes, for tests. A blob of zeros
// is the polynomial 0, so its commitment and its proofs are the point at infinity.
func ZeroBlobs(n int) (*Sidecar, []Hash) {
	infinity := append([]byte{0xc0}, make([]byte, pointBytes-1)...)
	hash := Hash(sha256.Sum256(infinity))
	hash[0] = blobVersion
	return &Sidecar{
		Version: 1, Blobs: slices.Repeat([][]byte{make([]byte, BlobSize)}, n), Commitments: slices.Repeat([][]byte{infinity}, n),
		Proofs: slices.Repeat([][]byte{infinity}, n*proofsPerBlob),
	}, slices.Repeat([]Hash{hash}, n)
}
