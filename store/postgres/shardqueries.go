package postgres

// sqlShard is sent with a plan that the server keeps, as other short reads are.
const sqlShard = `SELECT t.body FROM {texts} t WHERE t.kind = 'shard' AND t.name = ''`
