"""What tests of IPU programs import. Nothing of the product needs these modules.

    utils            `tensorflow.python.ipu.test_utils`
    reports          ReportJSON, which reads events
    case_extensions  what every TensorFlowTestCase can assert of profiles
    ipus             how many IPUs a test may use
"""
