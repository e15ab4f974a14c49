package main

import (
	"crypto/rand"
	"crypto/sha512"
	"encoding/hex"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
)

// build signs one counter's steps for each service: the first batch sets the counter, the
// others add to it, so that a batch out of order would show.
func build(c config, intkey bool) ([]batch.Batch, error) {
	key, err := sawtooth.GeneratePrivateKey()
	if err != nil {
		return nil, err
	}
	names := make([]string, c.services)
	for i := range names {
		names[i] = rand.Text()[:12]
	}
	batches := make([]batch.Batch, c.batches)
	for i := range batches {
		lane := i % c.services
		payload, address := step(names[lane], i < c.services, intkey)
		batches[i], err = sawtooth.Build(key, batch.ServiceID(fmt.Sprintf("service-%02d", lane)), sawtooth.Transaction{
			FamilyName: "intkey", FamilyVersion: "1.0", Nonce: rand.Text(),
			Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
		})
		if err != nil {
			return nil, err
		}
	}
	return batches, nil
}

func step(name string, first, intkey bool) (payload []byte, address string) {
	if intkey {
		verb := "inc"
		if first {
			verb = "set"
		}
		return intkeyPayload(verb, name, 1), intkeyAddress(name)
	}
	if first {
		return sawtoothtest.Set(name, 1)
	}
	return sawtoothtest.Inc(name, 1)
}

// intkeyPayload returns the CBOR map for Sawtooth's intkey processor. Here strings are shorter
// than 24 bytes and the value is below 24, so that each has one head byte.
func intkeyPayload(verb, name string, value byte) []byte {
	text := func(b []byte, s string) []byte { return append(append(b, 0x60|byte(len(s))), s...) }
	b := text(text([]byte{0xA3}, "Verb"), verb)
	b = text(text(b, "Name"), name)
	return append(text(b, "Value"), value)
}

// intkeyAddress returns the address at which Sawtooth's intkey processor stores a name.
func intkeyAddress(name string) string {
	family, key := sha512.Sum512([]byte("intkey")), sha512.Sum512([]byte(name))
	hash := hex.EncodeToString(key[:])
	return hex.EncodeToString(family[:])[:6] + hash[len(hash)-64:]
}
