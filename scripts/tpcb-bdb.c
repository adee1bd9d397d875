/* TPC-B on Berkeley DB, as crates/core/library/benches/tpcb.rs has it: accounts, tellers and
 * branches in B-trees of records of 100 bytes, the history in a record-number file.
 * tpcb-bdb DIRECTORY THREADS SECONDS SYNC PAGE_BYTES [ACCOUNTS]: one JSON line. */
#include <db.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>

enum { RECORD = 100, TELLERS = 100, BRANCHES = 10 };

static uint32_t accounts = 100000;

static DB_ENV *env;
static DB *files[4];
static volatile int stop;
static uint64_t again;

static void check(int error, const char *what) {
    if (error) {
        fprintf(stderr, "%s: %s\n", what, db_strerror(error));
        exit(1);
    }
}

static uint64_t next(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (*state * 0x2545f4914f6cdd1dULL) >> 16;
}

static int bump(DB *db, DB_TXN *txn, uint32_t number, int64_t delta) {
    unsigned char big[4] = {number >> 24, number >> 16, number >> 8, number};
    char record[RECORD];
    DBT key = {0}, data = {0};
    key.data = big;
    key.size = sizeof big;
    data.data = record;
    data.ulen = sizeof record;
    data.flags = DB_DBT_USERMEM;
    int error = db->get(db, txn, &key, &data, DB_RMW);
    if (error) return error;
    int64_t balance;
    memcpy(&balance, record, 8);
    balance += delta;
    memcpy(record, &balance, 8);
    data.size = RECORD;
    return db->put(db, txn, &key, &data, 0);
}

static int one(uint64_t *random) {
    uint32_t account = next(random) % accounts, teller = next(random) % TELLERS;
    int64_t delta = (int64_t)(next(random) % 1999999) - 999999;
    DB_TXN *txn;
    int error = env->txn_begin(env, NULL, &txn, 0);
    check(error, "begin");
    error = bump(files[0], txn, account, delta);
    if (!error) error = bump(files[1], txn, teller, delta);
    if (!error) error = bump(files[2], txn, teller % BRANCHES, delta);
    if (!error) {
        char history[50] = {0};
        memcpy(history, &delta, 8);
        memcpy(history + 8, &account, 4);
        db_recno_t recno;
        DBT key = {0}, data = {0};
        key.data = &recno;
        key.ulen = sizeof recno;
        key.flags = DB_DBT_USERMEM;
        data.data = history;
        data.size = sizeof history;
        error = files[3]->put(files[3], txn, &key, &data, DB_APPEND);
    }
    if (error) {
        txn->abort(txn);
        return error;
    }
    return txn->commit(txn, 0);
}

struct Worker {
    pthread_t thread;
    uint64_t random, done, longest;
    uint64_t *times;
};

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static void *work(void *argument) {
    struct Worker *worker = argument;
    size_t room = 1 << 20;
    worker->times = malloc(room * sizeof *worker->times);
    while (!stop) {
        uint64_t begun = now_ns();
        for (;;) {
            int error = one(&worker->random);
            if (error == 0) break;
            if (error != DB_LOCK_DEADLOCK) check(error, "transaction");
            __sync_fetch_and_add(&again, 1);
        }
        if (worker->done == room) {
            room *= 2;
            worker->times = realloc(worker->times, room * sizeof *worker->times);
        }
        worker->times[worker->done++] = now_ns() - begun;
    }
    return NULL;
}

static int less(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Bytes that the disk below a directory has been given, by whomever. */
static uint64_t disk_bytes(const char *directory) {
    struct stat st;
    char path[64];
    unsigned long sectors = 0;
    if (system("sync") || stat(directory, &st)) return 0;
    snprintf(path, sizeof path, "/sys/dev/block/%u:%u/stat", major(st.st_dev), minor(st.st_dev));
    FILE *counters = fopen(path, "r");
    if (!counters) return 0;
    if (fscanf(counters, "%*u %*u %*u %*u %*u %*u %lu", &sectors) != 1) sectors = 0;
    fclose(counters);
    return sectors * 512ULL;
}

int main(int argc, char **argv) {
    if (argc != 6 && argc != 7) {
        fprintf(stderr, "usage: %s DIRECTORY THREADS SECONDS SYNC PAGE_BYTES [ACCOUNTS]\n", argv[0]);
        return 2;
    }
    if (argc == 7) accounts = atoi(argv[6]);
    int threads = atoi(argv[2]), seconds = atoi(argv[3]), sync = atoi(argv[4]);
    check(db_env_create(&env, 0), "environment");
    check(env->set_cachesize(env, 0, 256 << 20, 1), "cache");
    check(env->set_lg_bsize(env, 4 << 20), "log buffer");
    check(env->set_lk_detect(env, DB_LOCK_DEFAULT), "detector");
    if (!sync) check(env->set_flags(env, DB_TXN_NOSYNC, 1), "flags");
    check(env->open(env, argv[1],
                    DB_CREATE | DB_INIT_MPOOL | DB_INIT_TXN | DB_INIT_LOCK | DB_INIT_LOG |
                        DB_PRIVATE | DB_THREAD,
                    0600),
          "open");
    const char *names[4] = {"accounts", "tellers", "branches", "history"};
    const uint32_t counts[3] = {accounts, TELLERS, BRANCHES};
    for (int i = 0; i < 4; i++) {
        check(db_create(&files[i], env, 0), "create");
        /* Few hot records: small pages, or every transaction waits for every other. */
        check(files[i]->set_pagesize(files[i], i == 1 || i == 2 ? 512 : atoi(argv[5])), "page");
        if (i == 3) check(files[i]->set_re_len(files[i], 50), "length");
        check(files[i]->open(files[i], NULL, names[i], NULL, i == 3 ? DB_QUEUE : DB_BTREE,
                             DB_CREATE | DB_THREAD | DB_AUTO_COMMIT, 0600),
              "open");
    }
    char record[RECORD] = {0};
    for (int i = 0; i < 3; i++)
        for (uint32_t number = 0; number < counts[i]; number++) {
            unsigned char big[4] = {number >> 24, number >> 16, number >> 8, number};
            DBT key = {0}, data = {0};
            key.data = big;
            key.size = sizeof big;
            data.data = record;
            data.size = sizeof record;
            DB_TXN *txn;
            check(env->txn_begin(env, NULL, &txn, DB_TXN_NOSYNC), "begin");
            check(files[i]->put(files[i], txn, &key, &data, 0), "load");
            check(txn->commit(txn, DB_TXN_NOSYNC), "load");
        }
    check(env->txn_checkpoint(env, 0, 0, 0), "checkpoint");
    uint64_t written = disk_bytes(argv[1]);
    struct Worker *workers = calloc(threads, sizeof *workers);
    uint64_t begun = now_ns();
    for (int i = 0; i < threads; i++) {
        workers[i].random = i * 7919 + 1;
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    struct timespec pause = {seconds, 0};
    nanosleep(&pause, NULL);
    stop = 1;
    uint64_t all = 0;
    for (int i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        all += workers[i].done;
    }
    double elapsed = (now_ns() - begun) / 1e9;
    check(env->txn_checkpoint(env, 0, 0, 0), "checkpoint");
    written = disk_bytes(argv[1]) - written;
    uint64_t *times = malloc((all + 1) * sizeof *times), *to = times;
    for (int i = 0; i < threads; i++) {
        memcpy(to, workers[i].times, workers[i].done * sizeof *to);
        to += workers[i].done;
    }
    qsort(times, all, sizeof *times, less);
    printf("{\"system\":\"bdb\",\"page\":%s,\"threads\":%d,\"sync\":%s,\"tps\":%.0f,\"again\":%lu,"
           "\"p50_us\":%lu,\"p99_us\":%lu,\"longest_us\":%lu,\"accounts\":%u,\"written\":%lu}\n",
           argv[5], threads, sync ? "true" : "false", all / elapsed, (unsigned long)again,
           (unsigned long)times[all / 2] / 1000, (unsigned long)times[all * 99 / 100] / 1000,
           (unsigned long)times[all - 1] / 1000, accounts,
           (unsigned long)(written / (all ? all : 1)));
    for (int i = 0; i < 4; i++) check(files[i]->close(files[i], 0), "close");
    check(env->close(env, 0), "close");
    return 0;
}
