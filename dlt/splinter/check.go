package splinter

import (
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
)

const idLen = 128 // the number of hex digits in a signature, and so in an id

// isID reports whether s is 128 lower-case hex digits.
func isID(s string) bool {
	if len(s) != idLen {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// Check implements [dlt.Ledger]. It refuses a batch that a node would refuse, answer with an
// ambiguous 500, or stall on for 300 s: every batch that [sawtooth.Check] refuses (no
// transactions, malformed signatures and headers, addresses that are not hex), a service that
// is not "circuit::service", and families, and versions of them, that no handler serves
// (Options.Families). The error is a [*batch.InputError].
func (c *Client) Check(b batch.Batch) error {
	if err := sawtooth.CheckSize(b, c.options.MaxBody); err != nil {
		return err
	}
	if _, err := parseService(b.Service); err != nil {
		return err
	}
	parsed, err := sawtooth.Parse(b.Payload, b.Service)
	if err != nil {
		return err
	}
	for i, t := range parsed.Transactions {
		if !isExecutable(c.options.Families, t.FamilyName, t.FamilyVersion) {
			return &batch.InputError{
				Key: b.Key(), Field: fmt.Sprintf("transactions[%d].header.family_name, family_version", i),
				Value: batch.Excerpt(t.FamilyName+" "+t.FamilyVersion, 64), Want: "a family and a version of Options.Families",
			}
		}
	}
	return nil
}
