package evm_test

import "encoding/hex"

func toHex(b []byte) string { return "0x" + hex.EncodeToString(b) }

func fromHex(s string) []byte {
	b, err := hex.DecodeString(s[2:])
	if err != nil {
		panic(err) // the client wrote it
	}
	return b
}
