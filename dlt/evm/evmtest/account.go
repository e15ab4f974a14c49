package evmtest

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"math/big"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// Account is an account whose key the test has.
type Account struct {
	key     *secp256k1.PrivateKey
	address string
}

// devAccounts are the accounts of the mnemonic "test test test test test test test test test test
// test junk".
var devAccounts = [...]struct{ key, address string }{
	{"ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80", "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"},
	{"59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d", "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"},
	{"5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a", "0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc"},
	{"7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6", "0x90f79bf6eb2c4f870365e785982e1f101e93b906"},
	{"47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a", "0x15d34aaf54267db7d7c367839aaf71a00a2c6a65"},
	{"8b3a350cf5c34c9194ca85829a2df0ec3153be0318b5e2d3348e872092edffba", "0x9965507d1a55bcc2695c58ba16fb37d819b0a4dc"},
	{"92db14e403b83dfe3df233f83dfa3a0d7096f21ca9b0d6d6b8d88b2b4ec1564e", "0x976ea74026e726554db657fa54763abd0c3a0aa9"},
	{"4bbbf85ce3377467afe5d46f804f221813b2bb87f24d81f60f1fcdbf7cbf4356", "0x14dc79964da2c08b23698b3d3cc7ca32193d9955"},
	{"dbda1821b80551c9d65939329250298aa3472ba22feea921c0cf5d620ea67b97", "0x23618e81e3f5cdf7f54c3d65f7fbc0abf5b21e8f"},
	{"2a871d0798f97d79848a013d4936a73bf4cc922c825d33c1cf7073dff6d409c6", "0xa0ee7a142d267c1f36714e4a8f75612f20a79720"},
}

// Dev returns one of the ten accounts, 0 to 9, that anvil funds, and that a [Node] funds unless
// its options say otherwise. Everybody knows their keys.
func Dev(i int) Account {
	b, err := hex.DecodeString(devAccounts[i].key)
	if err != nil {
		panic(err) // the keys above are hex
	}
	return Account{secp256k1.PrivKeyFromBytes(b), devAccounts[i].address}
}

// Named returns an account whose key is made of a name, for tests that need more than ten.
func Named(name string) Account {
	sum := sha256.Sum256([]byte("dltbatch evmtest account " + name))
	return accountOfKey(sum[:])
}

func accountOfKey(key []byte) Account {
	k := secp256k1.PrivKeyFromBytes(key)
	return Account{k, evmtx.KeyAddress(k.PubKey()).String()}
}

// Address returns 0x and 40 lower-case hex digits.
func (a Account) Address() string { return a.address }

// Key returns the 32 bytes of the private key.
func (a Account) Key() []byte { return a.key.Serialize() }

// Unsigned is a transaction of type 2 for a test. Numbers of fees and values are in wei.
type Unsigned struct {
	ChainID uint64
	Nonce   uint64
	// Tip and FeeCap are the maxPriorityFeePerGas and the maxFeePerGas. Default to 1 gwei and 30
	// gwei.
	Tip, FeeCap *big.Int
	// Gas defaults to 21,000.
	Gas uint64
	// To is an address. "" creates a contract of Data.
	To    string
	Value *big.Int
	Data  []byte
	// Blobs is the number of blobs; with any the transaction is of type 3. They are all zeros and
	// their proofs are true, so that real nodes accept them.
	Blobs int
	// BlobFeeCap is the maxFeePerBlobGas. Defaults to 1 gwei.
	BlobFeeCap *big.Int
}

// Sign returns the signed bytes of a transaction, with its blobs, and its hash. It panics if t.To
// is neither "" nor an address.
func (a Account) Sign(t Unsigned) (raw []byte, hash string) {
	tx := &evmtx.Tx{
		Type: evmtx.DynamicFee, ChainID: t.ChainID, Nonce: t.Nonce, Tip: t.Tip, FeeCap: t.FeeCap, Gas: t.Gas, Value: t.Value, Data: t.Data,
	}
	if tx.Tip == nil {
		tx.Tip = big.NewInt(1e9)
	}
	if tx.FeeCap == nil {
		tx.FeeCap = big.NewInt(30e9)
	}
	if tx.Gas == 0 {
		tx.Gas = 21000
	}
	if t.To != "" {
		to, err := evmtx.ParseAddress(t.To)
		if err != nil {
			panic(err)
		}
		tx.To = &to
	}
	if t.Blobs > 0 {
		tx.Type, tx.BlobFeeCap = evmtx.Blob, cmp.Or(t.BlobFeeCap, big.NewInt(1e9))
		tx.Sidecar, tx.BlobHashes = evmtx.ZeroBlobs(t.Blobs)
	}
	tx.Sign(a.key)
	return tx.EncodeToSend(), tx.Hash().String()
}

// Reverting returns the code that creates a contract which reverts every call.
func Reverting() []byte {
	return []byte{0x64, 0x60, 0x00, 0x60, 0x00, 0xfd, 0x60, 0x00, 0x52, 0x60, 0x05, 0x60, 0x1b, 0xf3}
}
