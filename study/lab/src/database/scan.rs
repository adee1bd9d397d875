//! SCAN: all accounts of a bank of TPC-B are read in the order of their numbers, after
//! many transactions have changed any of them (Seltzer 1992, §5.3.3; X3).

use varve_tp::{Environment, Placement, Result, TableDefinition, TornPages};

/// As the papers' data managers: a page has its place, and no drive is said to tear it.
pub const PLACEMENT: Placement = Placement::InPlace(TornPages::Never);
/// Transactions before the scan in the paper, and bytes of its accounts.
pub const TRANSACTIONS: f64 = 100_000.0;
/// The same.
pub const ACCOUNTS_BYTES: f64 = 160e6;

/// Reads all accounts, has each seen, and answers how many there are.
///
/// # Errors
/// What can befall a read.
pub fn scan(bank: &Environment, see: &mut dyn FnMut(&[u8; 100])) -> Result<u32> {
    let transaction = bank.begin_read();
    let table = TableDefinition::<u32, [u8; 100]>::new("accounts");
    let table = transaction.open_table(table)?;
    let mut accounts = 0;
    for row in table.iter()? {
        see(&row?.1);
        accounts += 1;
    }
    Ok(accounts)
}
