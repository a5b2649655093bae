//! Writes the tables of TPC-H as Parquet files.

use datafusion::arrow::record_batch::RecordBatchReader;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use std::error::Error;
use std::fs::File;
use std::path::Path;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow,
    SupplierArrow,
};

pub(crate) const TABLES: [&str; 8] = [
    "customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier",
];

/// Writes all tables into a directory. At scale 1 they have 8.7 million rows.
pub fn write(directory: &Path, scale: f64) -> Result<(), Box<dyn Error>> {
    let at = |table: &str| directory.join(format!("{table}.parquet"));
    let customers = CustomerArrow::new(CustomerGenerator::new(scale, 1, 1));
    write_table(&at("customer"), customers)?;
    let items = LineItemArrow::new(LineItemGenerator::new(scale, 1, 1));
    write_table(&at("lineitem"), items)?;
    let nations = NationArrow::new(NationGenerator::new(scale, 1, 1));
    write_table(&at("nation"), nations)?;
    let orders = OrderArrow::new(OrderGenerator::new(scale, 1, 1));
    write_table(&at("orders"), orders)?;
    let parts = PartArrow::new(PartGenerator::new(scale, 1, 1));
    write_table(&at("part"), parts)?;
    let supplies = PartSuppArrow::new(PartSuppGenerator::new(scale, 1, 1));
    write_table(&at("partsupp"), supplies)?;
    let regions = RegionArrow::new(RegionGenerator::new(scale, 1, 1));
    write_table(&at("region"), regions)?;
    let suppliers = SupplierArrow::new(SupplierGenerator::new(scale, 1, 1));
    write_table(&at("supplier"), suppliers)
}

fn write_table(file: &Path, rows: impl RecordBatchReader) -> Result<(), Box<dyn Error>> {
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(128 * 1024))
        .build();
    let mut writer = ArrowWriter::try_new(File::create(file)?, rows.schema(), Some(properties))?;
    for batch in rows {
        writer.write(&batch?)?;
    }
    writer.close()?;
    Ok(())
}
