/* Point reads of records in memory, for LMDB: the workload of
 * crates/records/tp/benches/reads.rs. Values are copied out, as they are there.
 *
 * reads-lmdb DIRECTORY THREADS SECONDS RECORDS GETS */
#include <lmdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static MDB_env *env;
static MDB_dbi dbi;
static uint32_t records;
static uint64_t gets;
static atomic_int stop;

static void check(int rc, const char *what)
{
	if (rc != 0) {
		fprintf(stderr, "%s: %s\n", what, mdb_strerror(rc));
		exit(1);
	}
}

static uint64_t next(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dULL >> 16;
}

static void load(void)
{
	MDB_txn *txn;
	char value[100];

	memset(value, 7, sizeof value);
	check(mdb_txn_begin(env, NULL, 0, &txn), "begin");
	check(mdb_dbi_open(txn, "records", MDB_CREATE, &dbi), "open");
	for (uint32_t number = 0; number < records; number++) {
		uint32_t key = __builtin_bswap32(number);
		MDB_val k = { sizeof key, &key }, v = { sizeof value, value };

		check(mdb_put(txn, dbi, &k, &v, MDB_APPEND), "put");
	}
	check(mdb_txn_commit(txn), "commit");
}

static void *reader(void *argument)
{
	uint64_t random = (uint64_t)(uintptr_t)argument * 7919 + 1, done = 0;
	char value[100];
	MDB_txn *txn;

	check(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), "begin");
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		mdb_txn_reset(txn);
		check(mdb_txn_renew(txn), "renew");
		for (uint64_t i = 0; i < gets; i++) {
			uint32_t key = __builtin_bswap32(next(&random) % records);
			MDB_val k = { sizeof key, &key }, v;

			check(mdb_get(txn, dbi, &k, &v), "get");
			memcpy(value, v.mv_data, sizeof value);
			if (value[99] != 7)
				abort();
		}
		done += gets;
	}
	mdb_txn_abort(txn);
	return (void *)(uintptr_t)done;
}

static double now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec + at.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	if (argc != 6) {
		fprintf(stderr, "reads-lmdb DIRECTORY THREADS SECONDS RECORDS GETS\n");
		return 2;
	}
	int threads = atoi(argv[2]);
	pthread_t readers[64];
	uint64_t done = 0;

	records = strtoul(argv[4], NULL, 10);
	gets = strtoull(argv[5], NULL, 10);
	check(mdb_env_create(&env), "create");
	check(mdb_env_set_maxdbs(env, 4), "maxdbs");
	check(mdb_env_set_mapsize(env, 4ull << 30), "mapsize");
	check(mdb_env_open(env, argv[1], 0, 0644), "open");
	load();
	double begun = now();
	for (int i = 0; i < threads && i < 64; i++)
		pthread_create(&readers[i], NULL, reader, (void *)(uintptr_t)i);
	sleep(atoi(argv[3]));
	atomic_store(&stop, 1);
	for (int i = 0; i < threads && i < 64; i++) {
		void *count;

		pthread_join(readers[i], &count);
		done += (uintptr_t)count;
	}
	printf("{\"system\":\"lmdb\",\"threads\":%d,\"gets\":%llu,\"reads_per_s\":%.0f}\n", threads,
	       (unsigned long long)gets, done / (now() - begun));
	return 0;
}
